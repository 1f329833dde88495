//! Arrays of a fixed length.

use super::ir_builder::IrBuilder;
use super::syntax::{is_self, strip};
use crate::ir::{Expr, Kind, Op};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{budget, messages};

/// `[a, b, c]`.
pub(super) fn list(builder: &mut IrBuilder<'_>, e: &syn::ExprArray) -> Expr {
    let elem = builder.shared.types.fresh();
    let items: Vec<Expr> = e.elems.iter().map(|item| builder.expr_as(item, &elem)).collect();
    let ty = Ty::Array(Box::new(elem), items.len() as u64);
    check_length(builder, &ty, &e.elems);
    Expr { kind: Kind::Array(items), ty, span: SpanRange::of(e) }
}

/// `[x; 4]`.
pub(super) fn repeat(builder: &mut IrBuilder<'_>, e: &syn::ExprRepeat) -> Expr {
    let item = builder.expr(&e.expr);
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(len), .. }) = strip(&e.len) else {
        return builder.refused(&e.len, messages::ARRAY_LENGTH);
    };
    let Ok(len) = len.base10_parse() else {
        return builder.refused(&e.len, messages::ARRAY_LENGTH);
    };
    let ty = Ty::Array(Box::new(item.ty.clone()), len);
    check_length(builder, &ty, &e.len);
    Expr { kind: Kind::Repeat(Box::new(item), len), ty, span: SpanRange::of(e) }
}

/// Refuses an array of too many elements.
fn check_length(builder: &mut IrBuilder<'_>, array: &Ty, at: &impl syn::spanned::Spanned) {
    if builder.shared.types.has_too_many_elements(array) {
        budget::refuse(at.span(), messages::ARRAY_TOO_LONG);
    }
}

/// `array[i]`. `emit` checks that the index stays inside, where intervals are known.
pub(super) fn index(builder: &mut IrBuilder<'_>, e: &syn::ExprIndex) -> Expr {
    if let syn::Expr::Index(inner) = strip(&e.expr)
        && let syn::Expr::Field(field) = strip(&inner.expr)
        && is_self(&field.base)
    {
        return builder.refused(e, messages::TENSOR_CHAIN);
    }
    let array = builder.expr(&e.expr);
    let Ty::Array(elem, _) = builder.resolve(&array.ty) else {
        return match (&array.kind, builder.resolve(&array.ty)) {
            (Kind::Error, _) => array,
            (Kind::Const(_), _) => builder.refused(e, messages::CONST_ARRAY),
            (_, Ty::Row) => builder.refused(e, messages::ROW_ELEMENT),
            (_, Ty::Var(_)) => builder.refused(e, messages::UNSEEN_ARRAY),
            _ => builder.refused(e, messages::INDEX_BASE),
        };
    };
    let index = builder.expr_as(&e.index, &Ty::Usize);
    Expr { kind: Kind::Index(Box::new(array), Box::new(index)), ty: *elem, span: SpanRange::of(e) }
}

/// `array[i] = x`, `array[i] += x`; returns the value when the place is refused.
pub(super) fn set_element(builder: &mut IrBuilder<'_>, target: &syn::ExprIndex, op: Option<Op>, value: Expr) -> Expr {
    let local = match strip(&target.expr) {
        syn::Expr::Path(p) => p.path.get_ident().and_then(|i| builder.lookup(&i.to_string())),
        _ => None,
    };
    let Some(local) = local else {
        builder.refuse(target, messages::ARRAY_TARGET);
        return value;
    };
    let ty = builder.resolve(&builder.locals[local].ty.clone());
    let Ty::Array(elem, _) = ty else {
        builder.refuse(target, if ty == Ty::Row { messages::ROW_ELEMENT } else { messages::ARRAY_TARGET });
        return value;
    };
    if !matches!(op, Some(Op::Shl | Op::Shr)) {
        builder.unify(&elem, &value.ty, value.span);
    }
    let index = Box::new(builder.expr_as(&target.index, &Ty::Usize));
    let kind = Kind::SetElement { local, index, op, value: Box::new(value) };
    Expr { kind, ty: Ty::Unit, span: SpanRange::of(target) }
}
