//! Arrays and their indices. Rust panics on an index outside of an array, so an index that is not provably inside is
//! refused.

use super::cpp_type::spelled;
use super::precedence::{CppExpr, subscript};
use super::writer::CudaWriter;
use crate::ir::{Expr, Kind, LocalId, Op};
use crate::messages;
use crate::report::SpanRange;
use crate::types::Ty;

/// `[a, b, c]`.
pub(super) fn value(writer: &mut CudaWriter<'_>, e: &Expr, items: &[Expr]) -> CppExpr {
    let elem = match writer.settled(&e.ty) {
        Ty::Array(elem, _) => spelled(&elem, writer.types),
        _ => None,
    };
    let items = writer.list(items);
    CppExpr::atom(match elem {
        Some(elem) => format!("{}array_of<{elem}>({items})", writer.prefix),
        None => format!("{}array({items})", writer.prefix),
    })
}

/// `array[i] op= value` as a statement.
pub(super) fn set_element(writer: &mut CudaWriter<'_>, local: LocalId, index: &Expr, op: Option<Op>, value: &Expr) {
    let ty = writer.function.locals[local].ty.clone();
    let array = writer.name(local);
    let at = checked_index(writer, &ty, index);
    let value = match op {
        None => writer.value(value),
        Some(op) => {
            let Ty::Array(elem, _) = writer.settled(&ty) else { return };
            // stands for the element: a variable of its type with an unknown value
            let element = Expr { kind: Kind::Local(local), ty: *elem, span: value.span };
            writer.combined(op, &element, &subscript(&array, &at), value)
        }
    };
    writer.line(&format!("{array}.set({at}, {value});"));
}

/// The text of an index that is provably inside its array; reports any other index.
pub(super) fn checked_index(writer: &mut CudaWriter<'_>, array: &Ty, index: &Expr) -> String {
    let Ty::Array(_, len) = writer.settled(array) else { return String::new() };
    let last = i64::try_from(len).unwrap_or(i64::MAX) - 1;
    match writer.intervals.of(index) {
        Some((low, high)) if low >= 0 && high <= last => return writer.value(index),
        Some((low, high)) if low == high => {
            writer.report.at(index.span, format!("there is no element {low}: this array has {len} elements"));
        }
        _ => writer.report.at(
            index.span,
            format!(
                "this index may leave the array, of {len} elements, where Rust panics: write \
                 `i.clamp(0, {last}) as usize`, or loop over `0..{len}`"
            ),
        ),
    }
    String::new()
}

/// The text of a number cast to `usize`; reports a number that may be negative, which Rust would turn into a huge
/// index.
pub(super) fn as_index(writer: &mut CudaWriter<'_>, inner: &Expr) -> CppExpr {
    if !writer.intervals.of(inner).is_some_and(|(low, high)| low >= 0 && high <= i64::from(i32::MAX)) {
        writer.report.at(inner.span, messages::INDEX_TOO_WIDE);
    }
    match writer.settled(&inner.ty) {
        Ty::I32 => writer.text(inner),
        _ => {
            let inner = writer.value(inner);
            CppExpr::atom(format!("int({inner})"))
        }
    }
}

/// Reports arithmetic on indices that may overflow an `int`.
pub(super) fn check_index_arithmetic(writer: &mut CudaWriter<'_>, op: Op, a: &Expr, b: &Expr, span: SpanRange) {
    if op.is_comparison() || op.is_logical() || writer.settled(&a.ty) != Ty::Usize {
        return;
    }
    if !writer.intervals.never_wraps(op, a, b) {
        writer.report.at(span, messages::INDEX_ARITHMETIC);
    }
}

/// Reports methods that count the bits of an index: C++ has an `int` where Rust has a `usize`.
pub(super) fn check_index_method(writer: &mut CudaWriter<'_>, name: &str, args: &[Expr], span: SpanRange) {
    let on_index = args.first().is_some_and(|a| writer.settled(&a.ty) == Ty::Usize);
    if on_index && !matches!(name, "min" | "max" | "clamp") {
        writer.report.at(span, messages::INDEX_METHOD);
    }
}
