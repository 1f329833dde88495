//! Parameter tensors: reads of their elements, and stores to output tensors.

use super::{
    ir_builder::IrBuilder,
    syntax::{is_self, strip},
};
use crate::{
    ir::{Expr, Kind},
    messages,
    report::SpanRange,
    types::Ty,
};

/// Methods of output tensors.
const STORES: [&str; 2] = ["store", "atomic_max"];

impl IrBuilder<'_> {
    /// `self.name[[i, j]]`, with lowered indices.
    pub(super) fn element(&mut self, name: String, indices: Vec<Expr>, span: SpanRange) -> Expr {
        let ty = self.shared.types.named(format!("self.{name}[]"));
        Expr { kind: Kind::Element(name, indices), ty, span }
    }

    /// `i`, or two to four indices `[i, j]`.
    pub(super) fn indices(&mut self, index: &syn::Expr) -> Option<Vec<Expr>> {
        match strip(index) {
            syn::Expr::Array(a) if (2..=4).contains(&a.elems.len()) => {
                Some(a.elems.iter().map(|i| self.tensor_index(i)).collect())
            }
            syn::Expr::Array(a) => {
                self.refuse(a, messages::TENSOR_RANK);
                None
            }
            i => Some(vec![self.tensor_index(i)]),
        }
    }

    fn tensor_index(&mut self, index: &syn::Expr) -> Expr {
        if let syn::Expr::Cast(cast) = strip(index)
            && matches!(&*cast.ty, syn::Type::Path(t) if t.path.is_ident("usize"))
        {
            return self.refused(index, messages::TENSOR_USIZE);
        }
        self.expr_as(index, &Ty::I32)
    }

    /// `self.name.get()`, `self.name.store([i, j], x)`; `None` when it is not a method of a tensor.
    pub(super) fn tensor_method(&mut self, e: &syn::ExprMethodCall) -> Option<Expr> {
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
                true => self.element(name.to_string(), Vec::new(), span),
                false => self.refused(&e.method, messages::TENSOR_GET),
            });
        }
        let method = STORES.into_iter().find(|m| *m == method)?;
        if e.args.len() != 2 {
            return Some(self.refused(&e.method, messages::STORE_ARGUMENTS));
        }
        let index = self.indices(&e.args[0]);
        let value = self.expr_as(&e.args[1], &Ty::F32);
        let Some(index) = index else { return Some(self.error(span)) };
        let kind = Kind::Store { name: name.to_string(), method, index, value: Box::new(value) };
        Some(Expr { kind, ty: Ty::Unit, span })
    }
}
