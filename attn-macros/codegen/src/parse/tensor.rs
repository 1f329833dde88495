//! Parameter tensors: reads of their elements, and stores to output tensors.

use super::ir_builder::IrBuilder;
use super::syntax::{is_self, strip};
use crate::ir::{Expr, Kind};
use crate::messages;
use crate::report::SpanRange;
use crate::types::Ty;

/// Methods of output tensors.
const STORES: [&str; 2] = ["store", "atomic_max"];

/// `self.name[[i, j]]`, with lowered indices.
pub(super) fn element(builder: &mut IrBuilder<'_>, name: String, indices: Vec<Expr>, span: SpanRange) -> Expr {
    let ty = builder.shared.types.named(format!("self.{name}[]"));
    Expr { kind: Kind::Element(name, indices), ty, span }
}

/// `i`, or two to four indices `[i, j]`.
pub(super) fn indices(builder: &mut IrBuilder<'_>, index: &syn::Expr) -> Option<Vec<Expr>> {
    match strip(index) {
        syn::Expr::Array(a) if (2..=4).contains(&a.elems.len()) => {
            Some(a.elems.iter().map(|i| one_index(builder, i)).collect())
        }
        syn::Expr::Array(a) => {
            builder.refuse(a, messages::TENSOR_RANK);
            None
        }
        i => Some(vec![one_index(builder, i)]),
    }
}

fn one_index(builder: &mut IrBuilder<'_>, index: &syn::Expr) -> Expr {
    if let syn::Expr::Cast(cast) = strip(index)
        && matches!(&*cast.ty, syn::Type::Path(t) if t.path.is_ident("usize"))
    {
        return builder.refused(index, messages::TENSOR_USIZE);
    }
    builder.expr_as(index, &Ty::I32)
}

/// `self.name.get()`, `self.name.store([i, j], x)`; `None` when it is not a method of a tensor.
pub(super) fn method(builder: &mut IrBuilder<'_>, e: &syn::ExprMethodCall) -> Option<Expr> {
    let syn::Expr::Field(syn::ExprField { base, member: syn::Member::Named(name), .. }) = strip(&e.receiver) else {
        return None;
    };
    if !is_self(base) {
        return None;
    }
    let span = SpanRange::of(e);
    let method = e.method.to_string();
    if method == "get" {
        return Some(match e.args.is_empty() {
            true => element(builder, name.to_string(), Vec::new(), span),
            false => builder.refused(&e.method, messages::TENSOR_GET),
        });
    }
    let method = STORES.into_iter().find(|m| *m == method)?;
    if e.args.len() != 2 {
        return Some(builder.refused(&e.method, messages::STORE_ARGUMENTS));
    }
    let index = indices(builder, &e.args[0]);
    let value = builder.expr_as(&e.args[1], &Ty::F32);
    let Some(index) = index else { return Some(builder.error(span)) };
    let kind = Kind::Store { name: name.to_string(), method, index, value: Box::new(value) };
    Some(Expr { kind, ty: Ty::Unit, span })
}
