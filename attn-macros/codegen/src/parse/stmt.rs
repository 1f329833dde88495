//! Blocks and statements of Rust as IR: `let`, assignments, loops, constants.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU8;

use quote::ToTokens as _;

use super::ir_builder::IrBuilder;
use super::syntax::{is_self, strip};
use super::{array, device, ty};
use crate::ir::{Block, Expr, Kind, LocalId, Op, Stmt};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{budget, messages};

impl IrBuilder<'_> {
    /// Lowers a block of this type.
    pub(super) fn block(&mut self, block: &syn::Block, want: &Ty) -> Block {
        self.scoped(|r| {
            let mut out = Block::default();
            for item in constants(block) {
                r.constant_item(item, &mut out);
            }
            for (i, stmt) in block.stmts.iter().enumerate() {
                let last = i + 1 == block.stmts.len();
                r.stmt(stmt, last, want, &mut out);
            }
            out
        })
    }

    fn stmt(&mut self, stmt: &syn::Stmt, last: bool, want: &Ty, out: &mut Block) {
        if !budget::spend(1) {
            return;
        }
        match stmt {
            syn::Stmt::Local(local) => self.local(local, out),
            syn::Stmt::Item(syn::Item::Const(_)) => {}
            syn::Stmt::Item(item) => self.refuse(item, messages::ITEM),
            syn::Stmt::Macro(mac) if mac.mac.path.is_ident("matches") => self.refuse(&mac.mac, messages::MATCHES),
            syn::Stmt::Macro(mac) => self.refuse(&mac.mac, messages::MACRO),
            syn::Stmt::Expr(expr, semi) => {
                if let Some(stmt) = self.expr_stmt(expr) {
                    out.stmts.push(stmt);
                } else if last && semi.is_none() {
                    let value = self.expr_as(expr, want);
                    out.tail = Some(Box::new(value));
                } else {
                    let value = self.expr(expr);
                    out.stmts.push(Stmt::Expr(value));
                }
            }
        }
    }

    fn constant_item(&mut self, item: &syn::ItemConst, out: &mut Block) {
        let ty = ty::of(&item.ty, self.shared).unwrap_or_else(|| self.shared.types.external());
        let init = self.flattened(|r| r.expr_as(&item.expr, &ty));
        let local = self.declare(&item.ident, ty, false);
        out.stmts.push(Stmt::Let { local, init });
    }

    /// Lowers an expression that is a statement with or without a semicolon.
    pub(super) fn expr_stmt(&mut self, expr: &syn::Expr) -> Option<Stmt> {
        match expr {
            syn::Expr::Assign(e) => {
                let value = self.expr(&e.right);
                self.assign(&e.left, None, value)
            }
            syn::Expr::Binary(e) => {
                let op = compound(&e.op)?;
                let value = self.expr(&e.right);
                self.assign(&e.left, Some(op), value)
            }
            syn::Expr::ForLoop(e) => Some(self.for_loop(e)),
            syn::Expr::Return(e) => {
                let want = self.returns.last().cloned().unwrap_or(Ty::Unit);
                Some(Stmt::Return(e.expr.as_ref().map(|e| self.expr_as(e, &want))))
            }
            syn::Expr::Break(e) => {
                if let Some(label) = &e.label {
                    self.refuse(label, messages::LABEL);
                }
                if let Some(value) = &e.expr {
                    self.refuse(value, messages::BREAK_VALUE);
                }
                Some(Stmt::Break)
            }
            syn::Expr::Continue(e) => {
                if let Some(label) = &e.label {
                    self.refuse(label, messages::LABEL);
                }
                Some(Stmt::Continue)
            }
            _ => None,
        }
    }

    fn local(&mut self, local: &syn::Local, out: &mut Block) {
        let Some(init) = &local.init else {
            self.refuse(local, messages::LET_INIT);
            return self.declare_anyway(&local.pat);
        };
        if let Some((_, diverge)) = &init.diverge {
            self.refuse(diverge, messages::LET_ELSE);
            return self.declare_anyway(&local.pat);
        }
        let (pat, given) = match &local.pat {
            syn::Pat::Type(p) => (&*p.pat, ty::of(&p.ty, self.shared)),
            pat => (pat, None),
        };
        let ty = given.unwrap_or_else(|| self.shared.types.fresh());
        // the text declares the variable outside of the branches of its initialiser, so the names there are different
        let value = self.flattened(|r| r.expr_as(&init.expr, &ty));
        if self.resolve(&ty) == Ty::Row {
            self.refuse(&init.expr, messages::ROW_VALUE);
        }
        self.let_pattern(pat, ty, value, out);
    }

    /// Declares the names of a refused `let`, so that their uses are not reported too.
    pub(super) fn declare_anyway(&mut self, pat: &syn::Pat) {
        match pat {
            syn::Pat::Ident(p) => {
                let ty = self.shared.types.external();
                self.declare(&p.ident, ty, true);
            }
            syn::Pat::Type(p) => self.declare_anyway(&p.pat),
            syn::Pat::Paren(p) => self.declare_anyway(&p.pat),
            syn::Pat::Reference(p) => self.declare_anyway(&p.pat),
            syn::Pat::Tuple(p) => p.elems.iter().for_each(|p| self.declare_anyway(p)),
            syn::Pat::TupleStruct(p) => p.elems.iter().for_each(|p| self.declare_anyway(p)),
            syn::Pat::Slice(p) => p.elems.iter().for_each(|p| self.declare_anyway(p)),
            syn::Pat::Struct(p) => p.fields.iter().for_each(|f| self.declare_anyway(&f.pat)),
            _ => {}
        }
    }

    /// Declares the names of a pattern, with statements in `out`.
    pub(super) fn let_pattern(&mut self, pat: &syn::Pat, ty: Ty, init: Expr, out: &mut Block) {
        match pat {
            syn::Pat::Paren(p) => self.let_pattern(&p.pat, ty, init, out),
            syn::Pat::Wild(_) => out.stmts.push(Stmt::Expr(init)),
            syn::Pat::Tuple(p) if p.elems.is_empty() => out.stmts.push(Stmt::Expr(init)),
            syn::Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => {
                let local = self.declare(&p.ident, ty, p.mutability.is_some());
                out.stmts.push(Stmt::Let { local, init });
            }
            syn::Pat::Tuple(p) if (2..=4).contains(&p.elems.len()) => self.let_tuple(p, &ty, init, out),
            syn::Pat::Struct(p) if p.qself.is_none() => device::let_struct(self, p, &ty, init, out),
            syn::Pat::TupleStruct(p) if p.qself.is_none() => device::let_tuple_struct(self, p, &ty, init, out),
            pat => {
                self.refuse(pat, messages::PATTERN);
                self.declare_anyway(pat);
            }
        }
    }

    fn let_tuple(&mut self, pat: &syn::PatTuple, ty: &Ty, init: Expr, out: &mut Block) {
        let elems: Vec<Ty> = match self.resolve(ty) {
            Ty::Tuple(elems) if elems.len() == pat.elems.len() => elems,
            ty => {
                let elems: Vec<Ty> = pat.elems.iter().map(|_| self.shared.types.external()).collect();
                self.unify(&ty, &Ty::Tuple(elems.clone()), init.span);
                elems
            }
        };
        let mut parts: Vec<Option<LocalId>> = Vec::new();
        let mut nested = Vec::new();
        for (pat, ty) in pat.elems.iter().zip(&elems) {
            parts.push(match pat {
                syn::Pat::Tuple(_) | syn::Pat::Paren(_) | syn::Pat::Struct(_) | syn::Pat::TupleStruct(_) => {
                    let local = self.temporary("part", ty.clone(), false);
                    nested.push((pat, local, ty.clone()));
                    Some(local)
                }
                pat => self.parameter(pat, ty, messages::PATTERN),
            });
        }
        let whole = self.temporary("whole", ty.clone(), false);
        out.stmts.push(Stmt::LetTuple { parts, whole, init });
        for (pat, local, ty) in nested {
            let init = Expr { kind: Kind::Local(local), ty: ty.clone(), span: SpanRange::of(pat) };
            self.let_pattern(pat, ty, init, out);
        }
    }

    pub(super) fn assign(&mut self, target: &syn::Expr, op: Option<Op>, value: Expr) -> Option<Stmt> {
        match target {
            syn::Expr::Paren(p) => return self.assign(&p.expr, op, value),
            syn::Expr::Infer(_) if op.is_none() => return Some(Stmt::Expr(value)),
            syn::Expr::Path(p) => {
                if let Some(local) = p.path.get_ident().and_then(|i| self.lookup(&i.to_string())) {
                    let ty = self.locals[local].ty.clone();
                    if !matches!(op, Some(Op::Shl | Op::Shr)) {
                        self.unify(&ty, &value.ty, value.span);
                    }
                    let span = SpanRange::of(target).to(value.span);
                    return Some(Stmt::Assign { local, op, value, span });
                }
                self.refuse(target, messages::TARGET);
            }
            syn::Expr::Index(i) => return Some(Stmt::Expr(array::set_element(self, i, op, value))),
            syn::Expr::Field(f) if is_self(&f.base) => self.refuse(target, messages::SELF_ASSIGN),
            syn::Expr::Field(f) => return device::assign_field(self, f, op, value),
            _ => self.refuse(target, messages::TARGET),
        }
        Some(Stmt::Expr(value))
    }

    fn for_loop(&mut self, e: &syn::ExprForLoop) -> Stmt {
        if let Some(label) = &e.label {
            self.refuse(label, messages::LABEL);
        }
        let ty = self.shared.types.fresh();
        let (from, to, inclusive) = match strip(&e.expr) {
            syn::Expr::Range(syn::ExprRange { start: Some(a), end: Some(b), limits, .. }) => {
                let from = self.expr_as(a, &ty);
                let to = self.expr_as(b, &ty);
                (from, to, matches!(limits, syn::RangeLimits::Closed(_)))
            }
            other => {
                self.refuse(other, messages::FOR_RANGE);
                (self.error(SpanRange::of(other)), self.error(SpanRange::of(other)), false)
            }
        };
        let unroll = self.unroll(&e.attrs);
        // the text declares these before the loop, in the enclosing scope
        let temporaries = Box::new(["end", "step"].map(|name| self.temporary(name, ty.clone(), false)));
        self.scoped(|r| {
            let var = match &*e.pat {
                syn::Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() && p.mutability.is_none() => {
                    r.declare(&p.ident, ty.clone(), false)
                }
                pat => {
                    if !matches!(pat, syn::Pat::Wild(_)) {
                        r.refuse(pat, messages::FOR_PATTERN);
                    }
                    r.temporary("i", ty.clone(), false)
                }
            };
            let body = r.block(&e.body, &Ty::Unit);
            Stmt::For { var, temporaries, from, to, inclusive, unroll, body }
        })
    }

    /// The count of `#[unroll(2)]`.
    fn unroll(&mut self, attrs: &[syn::Attribute]) -> Option<NonZeroU8> {
        let attr = attrs.iter().find(|attr| attr.path().is_ident("unroll"))?;
        match attr.parse_args::<syn::LitInt>().and_then(|count| count.base10_parse()) {
            Ok(count) => Some(count),
            _ => {
                self.refuse(attr, messages::UNROLL);
                None
            }
        }
    }
}

/// The constants of a block, each after those that it uses: in Rust their order is free.
fn constants(block: &syn::Block) -> Vec<&syn::ItemConst> {
    let mut pending: Vec<&syn::ItemConst> = Vec::new();
    for stmt in &block.stmts {
        if let syn::Stmt::Item(syn::Item::Const(item)) = stmt {
            pending.push(item);
        }
    }
    let numbered = pending.iter().enumerate().map(|(i, item)| (item.ident.to_string(), i));
    let numbers: HashMap<String, usize> = numbered.collect();
    let named: Vec<Vec<usize>> = pending.iter().map(|item| named_in(&item.expr.to_token_stream(), &numbers)).collect();
    let mut users = vec![Vec::new(); pending.len()];
    named.iter().enumerate().for_each(|(user, named)| named.iter().for_each(|&i| users[i].push(user)));
    let mut waits: Vec<usize> = named.iter().map(Vec::len).collect();
    let mut rest: BTreeSet<usize> = (0..pending.len()).collect();
    let mut ready: BTreeSet<usize> = rest.iter().copied().filter(|&i| waits[i] == 0).collect();
    let mut sorted = Vec::new();
    // of a cycle, which rustc reports, the first
    while let Some(next) = ready.pop_first().or_else(|| rest.first().copied()) {
        rest.remove(&next);
        sorted.push(pending[next]);
        for &user in &users[next] {
            waits[user] -= 1;
            if waits[user] == 0 && rest.contains(&user) {
                ready.insert(user);
            }
        }
    }
    sorted
}

/// The constants that an expression names, each once, by their numbers.
fn named_in(tokens: &proc_macro2::TokenStream, numbers: &HashMap<String, usize>) -> Vec<usize> {
    let mut found = Vec::new();
    for token in tokens.clone() {
        match token {
            proc_macro2::TokenTree::Ident(name) => found.extend(numbers.get(&name.to_string())),
            proc_macro2::TokenTree::Group(group) => found.extend(named_in(&group.stream(), numbers)),
            _ => {}
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The `+` of `+=`.
fn compound(op: &syn::BinOp) -> Option<Op> {
    let symbol = op.to_token_stream().to_string();
    let assigns = Op::of_symbol(&symbol).is_none();
    symbol.strip_suffix('=').filter(|_| assigns).and_then(Op::of_symbol)
}
