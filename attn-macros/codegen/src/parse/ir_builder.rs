//! Scopes, locals and types of the function being lowered.

use std::collections::HashMap;

use super::{context::ItemContext, syntax::is_index};
use crate::ir::{Expr, Kind, Local, LocalId};
use crate::messages;
use crate::names::Taken;
use crate::report::SpanRange;
use crate::types::Ty;

/// Lowers one function to IR.
pub(crate) struct IrBuilder<'a> {
    pub(super) shared: &'a mut ItemContext,
    pub(super) locals: Vec<Local>,
    pub(super) scopes: Vec<HashMap<String, LocalId>>,
    pub(super) taken: Taken,
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
            syn::Pat::Struct(p) if is_index(&p.path) => {
                self.refuse(p, messages::INDEX_PATTERN);
                None
            }
            pat => {
                self.refuse(pat, refusal);
                None
            }
        }
    }

    /// A local that user code cannot name.
    pub(super) fn temporary(&mut self, name: &str, ty: Ty, mutable: bool) -> LocalId {
        let name = self.taken.local(name);
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
        let before = self.taken.len();
        let result = f(self);
        self.taken.truncate(before);
        self.scopes.pop();
        result
    }

    /// A scope whose statements are emitted into the enclosing C++ scope: its names stay taken.
    pub(super) fn flattened<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let first = self.locals.len();
        let result = f(self);
        self.locals[first..].iter().for_each(|local| self.taken.take(&local.name));
        result
    }

    pub(super) fn resolve(&self, ty: &Ty) -> Ty {
        self.shared.types.resolve(ty)
    }

    /// Makes two types equal; `span` is of what has the second.
    pub(super) fn unify(&mut self, wanted: &Ty, found: &Ty, span: SpanRange) {
        self.shared.types.unify(wanted, found);
        if let Some((wanted, found)) = self.shared.types.take_contradiction() {
            self.shared.report.at(span, messages::mismatched(&wanted.name(), &found.name()));
        }
    }

    /// Reports an operation that rustc refuses for a type, and C++ converts for.
    pub(super) fn refuse_type(&mut self, is_wrong: bool, span: SpanRange, message: impl Fn() -> String) {
        if is_wrong && self.shared.types.is_checking() {
            self.shared.report.at(span, message());
        }
    }
}
