//! Arrays of a fixed length.

use super::{
    ir_builder::IrBuilder,
    syntax::{is_self, strip},
};
use crate::{
    budget,
    ir::{Expr, Kind, Op},
    messages,
    report::SpanRange,
    types::Ty,
};

impl IrBuilder<'_> {
    /// `[a, b, c]`.
    pub(super) fn array(&mut self, e: &syn::ExprArray) -> Expr {
        let elem = self.shared.types.fresh();
        let items: Vec<Expr> = e.elems.iter().map(|item| self.expr_as(item, &elem)).collect();
        let ty = Ty::Array(Box::new(elem), items.len() as u64);
        self.check_length(&ty, &e.elems);
        Expr { kind: Kind::Array(items), ty, span: SpanRange::of(e) }
    }

    /// `[x; 4]`.
    pub(super) fn repeat(&mut self, e: &syn::ExprRepeat) -> Expr {
        let item = self.expr(&e.expr);
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(len), .. }) = strip(&e.len) else {
            return self.refused(&e.len, messages::ARRAY_LENGTH);
        };
        let Ok(len) = len.base10_parse() else {
            return self.refused(&e.len, messages::ARRAY_LENGTH);
        };
        let ty = Ty::Array(Box::new(item.ty.clone()), len);
        self.check_length(&ty, &e.len);
        Expr { kind: Kind::Repeat(Box::new(item), len), ty, span: SpanRange::of(e) }
    }

    /// Refuses an array of too many elements.
    fn check_length(&mut self, array: &Ty, at: &impl syn::spanned::Spanned) {
        if self.shared.types.has_too_many_elements(array) {
            budget::refuse(at.span(), messages::ARRAY_TOO_LONG);
        }
    }

    /// `array[i]`. `emit` checks that the index stays inside, where intervals are known.
    pub(super) fn index_array(&mut self, e: &syn::ExprIndex) -> Expr {
        if let syn::Expr::Index(inner) = strip(&e.expr)
            && let syn::Expr::Field(field) = strip(&inner.expr)
            && is_self(&field.base)
        {
            return self.refused(e, messages::TENSOR_CHAIN);
        }
        let array = self.expr(&e.expr);
        let Ty::Array(elem, _) = self.resolve(&array.ty) else {
            return match (&array.kind, self.resolve(&array.ty)) {
                (Kind::Error, _) => array,
                (Kind::Const(_), _) => self.refused(e, messages::CONST_ARRAY),
                (_, Ty::Row) => self.refused(e, messages::ROW_ELEMENT),
                (_, Ty::Var(_)) => self.refused(e, messages::UNSEEN_ARRAY),
                _ => self.refused(e, messages::INDEX_BASE),
            };
        };
        let index = self.expr_as(&e.index, &Ty::Usize);
        Expr { kind: Kind::Index(Box::new(array), Box::new(index)), ty: *elem, span: SpanRange::of(e) }
    }

    /// `array[i] = x`, `array[i] += x`; returns the value when the place is refused.
    pub(super) fn set_element(&mut self, target: &syn::ExprIndex, op: Option<Op>, value: Expr) -> Expr {
        let local = match strip(&target.expr) {
            syn::Expr::Path(p) => p.path.get_ident().and_then(|i| self.lookup(&i.to_string())),
            _ => None,
        };
        let Some(local) = local else {
            self.refuse(target, messages::ARRAY_TARGET);
            return value;
        };
        let ty = self.resolve(&self.locals[local].ty.clone());
        let Ty::Array(elem, _) = ty else {
            self.refuse(target, if ty == Ty::Row { messages::ROW_ELEMENT } else { messages::ARRAY_TARGET });
            return value;
        };
        if !matches!(op, Some(Op::Shl | Op::Shr)) {
            self.unify(&elem, &value.ty, value.span);
        }
        let index = Box::new(self.expr_as(&target.index, &Ty::Usize));
        let kind = Kind::SetElement { local, index, op, value: Box::new(value) };
        Expr { kind, ty: Ty::Unit, span: SpanRange::of(target) }
    }
}
