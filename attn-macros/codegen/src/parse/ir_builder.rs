//! Scopes, locals and types of the function being lowered.

use std::collections::{HashMap, HashSet};

use super::context::ItemContext;
use crate::{
    ir::{Expr, Kind, Local, LocalId},
    names,
    report::SpanRange,
    types::Ty,
};

/// Lowers one function to IR.
pub(crate) struct IrBuilder<'a> {
    pub(super) shared: &'a mut ItemContext,
    pub(super) locals: Vec<Local>,
    pub(super) scopes: Vec<HashMap<String, LocalId>>,
    pub(super) taken: HashSet<String>,
    /// Result types of the function and of the closures around.
    pub(super) returns: Vec<Ty>,
}

impl IrBuilder<'_> {
    pub(super) fn refuse(&mut self, tokens: &impl quote::ToTokens, message: impl std::fmt::Display) {
        self.shared.report.on(tokens, message);
    }

    /// Reports an error, and returns a placeholder expression.
    pub(super) fn refused(&mut self, tokens: &impl quote::ToTokens, message: impl std::fmt::Display) -> Expr {
        self.refuse(tokens, message);
        self.error(SpanRange::of(tokens))
    }

    pub(super) fn error(&mut self, span: SpanRange) -> Expr {
        Expr { kind: Kind::Error, ty: self.shared.types.external(), span }
    }

    pub(super) fn declare(&mut self, ident: &syn::Ident, ty: Ty, mutable: bool) -> LocalId {
        let id = self.temporary(&ident.to_string(), ty, mutable);
        self.bind(ident, id);
        id
    }

    /// The local of a parameter that is a plain name; `None` for `_`, and after an error.
    pub(super) fn parameter(&mut self, pat: &syn::Pat, ty: &Ty, refusal: &str) -> Option<LocalId> {
        match pat {
            syn::Pat::Wild(_) => None,
            syn::Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => {
                Some(self.declare(&p.ident, ty.clone(), p.mutability.is_some()))
            }
            pat => {
                self.refuse(pat, refusal);
                None
            }
        }
    }

    /// A local that user code cannot name.
    pub(super) fn temporary(&mut self, name: &str, ty: Ty, mutable: bool) -> LocalId {
        let name = names::local(name, &mut self.taken);
        self.locals.push(Local { name, ty, mutable });
        self.locals.len() - 1
    }

    pub(super) fn bind(&mut self, ident: &syn::Ident, id: LocalId) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(ident.to_string(), id);
        }
    }

    pub(super) fn lookup(&self, name: &str) -> Option<LocalId> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    /// A scope of names that is also a C++ scope: its names are free again after it.
    pub(super) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push(HashMap::new());
        let taken = self.taken.clone();
        let result = f(self);
        self.taken = taken;
        self.scopes.pop();
        result
    }

    /// A scope whose statements are emitted into the enclosing C++ scope: its names stay taken.
    pub(super) fn flattened<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let first = self.locals.len();
        let result = f(self);
        self.taken.extend(self.locals[first..].iter().map(|local| local.name.clone()));
        result
    }

    pub(super) fn resolve(&self, ty: &Ty) -> Ty {
        self.shared.types.resolve(ty)
    }

    pub(super) fn unify(&mut self, a: &Ty, b: &Ty) {
        self.shared.types.unify(a, b);
    }
}
