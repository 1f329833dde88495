//! Arrays and their indices. Rust panics on an index outside of an array, so an index that is not provably inside is
//! refused.

use super::{
    cpp_type::spelled,
    precedence::{CppExpr, subscript},
    writer::CudaWriter,
};
use crate::{
    ir::{Expr, Kind, LocalId, Op},
    messages,
    report::SpanRange,
    types::Ty,
};

impl CudaWriter<'_> {
    /// `[a, b, c]`.
    pub(super) fn array(&mut self, e: &Expr, items: &[Expr]) -> CppExpr {
        let elem = match self.settled(&e.ty) {
            Ty::Array(elem, _) => spelled(&elem, self.types),
            _ => None,
        };
        let items = self.list(items);
        CppExpr::atom(match elem {
            Some(elem) => format!("{}array_of<{elem}>({items})", self.prefix),
            None => format!("{}array({items})", self.prefix),
        })
    }

    /// `array[i] op= value` as a statement.
    pub(super) fn set_element(&mut self, local: LocalId, index: &Expr, op: Option<Op>, value: &Expr) {
        let ty = self.function.locals[local].ty.clone();
        let array = self.name(local);
        let at = self.checked_index(&ty, index);
        let value = match op {
            None => self.value(value),
            Some(op) => {
                let Ty::Array(elem, _) = self.settled(&ty) else { return };
                // stands for the element: a variable of its type with an unknown value
                let element = Expr { kind: Kind::Local(local), ty: *elem, span: value.span };
                self.combined(op, &element, &subscript(&array, &at), value)
            }
        };
        self.line(&format!("{array}.set({at}, {value});"));
    }

    /// The text of an index that is provably inside its array; reports any other index.
    pub(super) fn checked_index(&mut self, array: &Ty, index: &Expr) -> String {
        let Ty::Array(_, len) = self.settled(array) else { return String::new() };
        let last = i64::try_from(len).unwrap_or(i64::MAX) - 1;
        match self.interval(index) {
            Some((low, high)) if low >= 0 && high <= last => return self.value(index),
            Some((low, high)) if low == high => {
                self.report.at(index.span, format!("there is no element {low}: this array has {len} elements"));
            }
            _ => self.report.at(
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
    pub(super) fn as_index(&mut self, inner: &Expr) -> CppExpr {
        if !self.interval(inner).is_some_and(|(low, high)| low >= 0 && high <= i64::from(i32::MAX)) {
            self.report.at(inner.span, messages::INDEX_TOO_WIDE);
        }
        match self.settled(&inner.ty) {
            Ty::I32 => self.text(inner),
            _ => {
                let inner = self.value(inner);
                CppExpr::atom(format!("int({inner})"))
            }
        }
    }

    /// Reports arithmetic on indices that may overflow an `int`.
    pub(super) fn check_index_arithmetic(&mut self, op: Op, a: &Expr, b: &Expr, span: SpanRange) {
        if op.is_comparison() || op.is_logical() || self.settled(&a.ty) != Ty::Usize {
            return;
        }
        if !self.never_wraps(op, a, b) {
            self.report.at(span, messages::INDEX_ARITHMETIC);
        }
    }

    /// Reports methods that count the bits of an index: C++ has an `int` where Rust has a `usize`.
    pub(super) fn check_index_method(&mut self, name: &str, args: &[Expr], span: SpanRange) {
        let on_index = args.first().is_some_and(|a| self.settled(&a.ty) == Ty::Usize);
        if on_index && !matches!(name, "min" | "max" | "clamp") {
            self.report.at(span, messages::INDEX_METHOD);
        }
    }
}
