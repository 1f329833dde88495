//! Arrays, and their indices: Rust panics outside of an array, so an index that is not shown to stay inside is refused.

use super::{
    Writer, spelled,
    value::{Text, subscript},
};
use crate::{
    ir::{Expr, Kind, LocalId, Op},
    messages,
    report::Range,
    types::Ty,
};

impl Writer<'_> {
    /// `[a, b, c]`.
    pub(super) fn array(&mut self, e: &Expr, items: &[Expr]) -> Text {
        let elem = match self.settled(&e.ty) {
            Ty::Array(elem, _) => spelled(&elem, self.types),
            _ => None,
        };
        let items = self.list(items);
        Text::atom(match elem {
            Some(elem) => format!("array_of<{elem}>({items})"),
            None => format!("array({items})"),
        })
    }

    /// `array[i] op= value` as a statement.
    pub(super) fn set_element(&mut self, local: LocalId, index: &Expr, op: Option<Op>, value: &Expr) {
        let ty = self.function.locals[local].ty.clone();
        let array = self.name(local);
        let at = self.inside(&ty, index);
        let value = match op {
            None => self.value(value),
            Some(op) => {
                let Ty::Array(elem, _) = self.settled(&ty) else { return };
                // stands for the element: a variable of its type of which nothing is known
                let element = Expr { kind: Kind::Local(local), ty: *elem, span: value.span };
                self.combined(op, &element, &subscript(&array, &at), value)
            }
        };
        self.line(&format!("{array}.set({at}, {value});"));
    }

    /// An index that stays inside of its array; others are refused.
    pub(super) fn inside(&mut self, array: &Ty, index: &Expr) -> String {
        let Ty::Array(_, len) = self.settled(array) else { return String::new() };
        let last = i64::try_from(len).unwrap_or(i64::MAX) - 1;
        match self.range(index) {
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

    /// A number as an index: none that Rust would make a huge one.
    pub(super) fn as_index(&mut self, inner: &Expr) -> Text {
        if !self.range(inner).is_some_and(|(low, high)| low >= 0 && high <= i64::from(i32::MAX)) {
            self.report.at(inner.span, messages::INDEX_TOO_WIDE);
        }
        match self.settled(&inner.ty) {
            Ty::I32 => self.text(inner),
            _ => {
                let inner = self.value(inner);
                Text::atom(format!("int({inner})"))
            }
        }
    }

    /// Refuses arithmetic on indices that may leave what an `int` holds.
    pub(super) fn shown_small(&mut self, op: Op, a: &Expr, b: &Expr, span: Range) {
        if op.is_comparison() || op.is_logical() || self.settled(&a.ty) != Ty::Usize {
            return;
        }
        if !self.never_wraps(op, a, b) {
            self.report.at(span, messages::INDEX_ARITHMETIC);
        }
    }

    /// Refuses methods that count the bits of an index.
    pub(super) fn method_of_index(&mut self, name: &str, args: &[Expr], span: Range) {
        let on_index = args.first().is_some_and(|a| self.settled(&a.ty) == Ty::Usize);
        if on_index && !matches!(name, "min" | "max" | "clamp") {
            self.report.at(span, messages::INDEX_METHOD);
        }
    }
}
