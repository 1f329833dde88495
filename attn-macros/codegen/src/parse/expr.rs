//! Expressions of Rust as IR with types to be inferred; what the language does not have is refused with a hint.

use quote::ToTokens as _;

use super::ir_builder::IrBuilder;
use super::syntax::{is_assoc, is_self, strip};
use super::{array, device, literal, method, path, tensor, ty};
use crate::ir::{Block, Expr, Kind, Op};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{budget, hook, messages, names};

impl IrBuilder<'_> {
    /// Lowers an expression that must have this type.
    pub(super) fn expr_as(&mut self, expr: &syn::Expr, want: &Ty) -> Expr {
        let value = self.expr(expr);
        self.unify(want, &value.ty, value.span);
        value
    }

    pub(super) fn expr(&mut self, expr: &syn::Expr) -> Expr {
        if !budget::spend(1) {
            return self.error(proc_macro2::Span::call_site().into());
        }
        let span = SpanRange::of_expr(expr);
        match expr {
            syn::Expr::Paren(e) => self.expr(&e.expr),
            syn::Expr::Group(e) => self.expr(&e.expr),
            syn::Expr::Lit(e) => literal::value(self, &e.lit),
            syn::Expr::Path(e) => path::value(self, e),
            syn::Expr::Field(e) => self.field(e),
            syn::Expr::Index(e) => self.index(e),
            syn::Expr::Unary(e) => self.unary(e),
            syn::Expr::Binary(e) => self.binary(e),
            syn::Expr::Cast(e) => self.cast(e),
            syn::Expr::MethodCall(e) => method::call(self, e),
            syn::Expr::Call(e) => self.call(e),
            syn::Expr::If(e) => self.if_else(e),
            syn::Expr::Match(e) => self.match_expr(e),
            syn::Expr::Block(e) => {
                if let Some(label) = &e.label {
                    self.refuse(label, messages::LABEL);
                }
                let ty = self.shared.types.fresh();
                let block = self.flattened(|r| r.block(&e.block, &ty));
                let ty = self.block_type(&block, ty);
                Expr { kind: Kind::Block(block), ty, span }
            }
            syn::Expr::Tuple(e) if e.elems.is_empty() => {
                Expr { kind: Kind::Block(Block::default()), ty: Ty::Unit, span }
            }
            syn::Expr::Tuple(e) if (2..=4).contains(&e.elems.len()) => {
                let items: Vec<Expr> = e.elems.iter().map(|e| self.expr(e)).collect();
                let ty = Ty::Tuple(items.iter().map(|e| e.ty.clone()).collect());
                if self.shared.types.is_too_large(&ty) {
                    budget::refuse(span.start(), messages::TYPE_TOO_LARGE);
                }
                Expr { kind: Kind::Tuple(items), ty, span }
            }
            syn::Expr::Array(e) => array::list(self, e),
            syn::Expr::Repeat(e) => array::repeat(self, e),
            syn::Expr::Struct(e) => device::struct_literal(self, e),
            syn::Expr::Reference(e) if self.shared.module.is_some() => self.expr(&e.expr),
            syn::Expr::Return(_) | syn::Expr::Break(_) | syn::Expr::Continue(_) => match self.expr_stmt(expr) {
                Some(stmt) => Expr { kind: Kind::Diverge(Box::new(stmt)), ty: self.shared.types.fresh(), span },
                None => self.error(span),
            },
            other => {
                let message = refusal(other);
                self.refused(other, message)
            }
        }
    }

    /// The type of a block: `()` without a value, unless it diverges.
    pub(super) fn block_type(&mut self, block: &Block, value: Ty) -> Ty {
        use crate::ir::Stmt;
        let diverges = matches!(block.stmts.last(), Some(Stmt::Return(_) | Stmt::Break | Stmt::Continue));
        if block.tail.is_none() && !diverges {
            return Ty::Unit;
        }
        value
    }

    fn field(&mut self, e: &syn::ExprField) -> Expr {
        let span = SpanRange::of(e);
        if is_self(&e.base) {
            let syn::Member::Named(name) = &e.member else {
                return self.refused(e, messages::NESTED_FIELD);
            };
            let ty = self.shared.types.named(format!("self.{name}"));
            return Expr { kind: Kind::Param(name.to_string()), ty, span };
        }
        if let syn::Expr::Field(base) = strip(&e.base)
            && is_self(&base.base)
        {
            return self.refused(e, messages::NESTED_FIELD);
        }
        let base = self.expr(&e.base);
        let base_ty = self.resolve(&base.ty);
        match &e.member {
            syn::Member::Unnamed(index) => {
                let i = index.index as usize;
                let ty = match &base_ty {
                    Ty::Tuple(items) if i < items.len() => items[i].clone(),
                    Ty::Device(name) => self.shared.types.named(format!("{name}.{i}")),
                    _ => self.shared.types.external(),
                };
                Expr { kind: Kind::TupleField(Box::new(base), i), ty, span }
            }
            syn::Member::Named(name) => self.word(e, base, &base_ty, name),
        }
    }

    /// `at.qo_pos`, `at.row.qo_pos`.
    fn word(&mut self, e: &syn::ExprField, base: Expr, base_ty: &Ty, name: &syn::Ident) -> Expr {
        let text = name.to_string();
        if *base_ty == Ty::LogitIndex && text == "row" {
            return Expr { ty: Ty::RowIndex, ..base };
        }
        let Some((words, ty)) = hook::coordinates(base_ty) else {
            return match base_ty {
                _ if matches!(base.kind, Kind::Error) => base,
                Ty::Device(_) | Ty::Struct(..) | Ty::Var(_) => device::struct_field(self, base, name, SpanRange::of(e)),
                _ => self.refused(e, messages::EXPRESSION),
            };
        };
        if !words.contains(&text.as_str()) {
            return self.refused(name, no_word(&text, base_ty, words));
        }
        match base.kind {
            Kind::Local(local) => Expr { kind: Kind::Coordinate(local, text), ty, span: SpanRange::of(e) },
            _ => self.refused(e, messages::EXPRESSION),
        }
    }

    fn index(&mut self, e: &syn::ExprIndex) -> Expr {
        let name = match strip(&e.expr) {
            syn::Expr::Field(f) if is_self(&f.base) => match &f.member {
                syn::Member::Named(name) => name.to_string(),
                syn::Member::Unnamed(_) => return self.refused(e, messages::NESTED_FIELD),
            },
            _ => return array::index(self, e),
        };
        match tensor::indices(self, &e.index) {
            Some(indices) => tensor::element(self, name, indices, SpanRange::of(e)),
            None => self.error(SpanRange::of(e)),
        }
    }

    fn unary(&mut self, e: &syn::ExprUnary) -> Expr {
        let span = SpanRange::of(e);
        if let syn::UnOp::Neg(_) = e.op
            && let syn::Expr::Path(p) = strip(&e.expr)
            && is_assoc(&p.path, "f32", "INFINITY")
        {
            return Expr { kind: Kind::NegInfinity, ty: Ty::F32, span };
        }
        let value = self.expr(&e.expr);
        let ty = value.ty.clone();
        let known = self.resolve(&ty);
        let is_wrong = match e.op {
            syn::UnOp::Neg(_) => matches!(known, Ty::Bool | Ty::U8 | Ty::U32 | Ty::U64),
            _ => known == Ty::F32,
        };
        let symbol = if matches!(e.op, syn::UnOp::Neg(_)) { '-' } else { '!' };
        self.refuse_type(is_wrong, span, || format!("no `{symbol}` of {}", known.name()));
        match e.op {
            syn::UnOp::Neg(_) => Expr { kind: Kind::Neg(Box::new(value)), ty, span },
            syn::UnOp::Not(_) => Expr { kind: Kind::Not(Box::new(value)), ty, span },
            syn::UnOp::Deref(_) if self.resolve(&ty) == Ty::LogitIndex => Expr { ty: Ty::RowIndex, ..value },
            _ => self.refused(e, messages::REFERENCE),
        }
    }

    fn binary(&mut self, e: &syn::ExprBinary) -> Expr {
        let span = SpanRange::of(e);
        let Some(op) = Op::of_symbol(&e.op.to_token_stream().to_string()) else {
            return self.refused(e, messages::ASSIGN_VALUE);
        };
        let (a, b) = (self.expr(&e.left), self.expr(&e.right));
        let ty = match op {
            Op::Shl | Op::Shr => a.ty.clone(),
            Op::AndAlso | Op::OrElse => {
                self.unify(&Ty::Bool, &a.ty, a.span);
                self.unify(&Ty::Bool, &b.ty, b.span);
                Ty::Bool
            }
            _ => {
                self.unify(&a.ty, &b.ty, b.span);
                if op.is_comparison() {
                    device::record_comparison(self, &a.ty, syn::spanned::Spanned::span(&e.op));
                    Ty::Bool
                } else {
                    let is_wrong = !matches!(op, Op::And | Op::Or | Op::Xor) && self.resolve(&a.ty) == Ty::Bool;
                    self.refuse_type(is_wrong, span, || format!("no `{}` of bools", op.symbol()));
                    a.ty.clone()
                }
            }
        };
        Expr { kind: Kind::Binary(op, Box::new(a), Box::new(b)), ty, span }
    }

    fn cast(&mut self, e: &syn::ExprCast) -> Expr {
        let value = self.expr(&e.expr);
        if matches!(&*e.ty, syn::Type::Path(t) if t.path.is_ident("usize")) {
            return Expr { kind: Kind::Cast(Box::new(value), Ty::Usize), ty: Ty::Usize, span: SpanRange::of(e) };
        }
        let Some(ty) = ty::of(&e.ty, self.shared) else {
            return self.error(SpanRange::of(e));
        };
        if !(ty.is_int() || ty == Ty::F32) {
            return self.refused(&e.ty, messages::CAST);
        }
        let is_wrong = ty == Ty::F32 && self.resolve(&value.ty) == Ty::Bool;
        self.refuse_type(is_wrong, value.span, || "a bool becomes an f32 by `if x { 1.0 } else { 0.0 }`".to_owned());
        Expr { kind: Kind::Cast(Box::new(value), ty.clone()), ty, span: SpanRange::of(e) }
    }

    fn if_else(&mut self, e: &syn::ExprIf) -> Expr {
        let cond = self.expr_as(&e.cond, &Ty::Bool);
        let Some((_, other)) = &e.else_branch else {
            let then = self.block(&e.then_branch, &Ty::Unit);
            let kind = Kind::If { cond: Box::new(cond), then, other: None };
            return Expr { kind, ty: Ty::Unit, span: SpanRange::of(e) };
        };
        let ty = self.shared.types.fresh();
        let then = self.block(&e.then_branch, &ty);
        let other = self.arm_body(other, &ty);
        let (a, b) = (self.block_type(&then, ty.clone()), self.block_type(&other, ty.clone()));
        let ty = if a == Ty::Unit || b == Ty::Unit { Ty::Unit } else { ty };
        Expr { kind: Kind::If { cond: Box::new(cond), then, other: Some(other) }, ty, span: SpanRange::of(e) }
    }
}

fn refusal(expr: &syn::Expr) -> &'static str {
    match expr {
        syn::Expr::Reference(_) | syn::Expr::RawAddr(_) => messages::REFERENCE,
        syn::Expr::Macro(mac) if mac.mac.path.is_ident("matches") => messages::MATCHES,
        syn::Expr::Macro(_) => messages::MACRO,
        syn::Expr::Try(_) | syn::Expr::TryBlock(_) => messages::QUESTION,
        syn::Expr::Loop(_) | syn::Expr::While(_) => messages::LOOP,
        syn::Expr::ForLoop(_) | syn::Expr::Assign(_) => messages::ASSIGN_VALUE,
        syn::Expr::Closure(_) => messages::CLOSURE,
        syn::Expr::Range(_) => messages::RANGE,
        syn::Expr::Let(_) => messages::LET_CONDITION,
        syn::Expr::Unsafe(_) => messages::UNSAFE,
        syn::Expr::Async(_) | syn::Expr::Await(_) | syn::Expr::Yield(_) => messages::ASYNC,
        syn::Expr::Tuple(_) => messages::TUPLE_SIZE,
        _ => messages::EXPRESSION,
    }
}

/// The message on a word that an index of this type does not have.
fn no_word(text: &str, ty: &Ty, words: &'static [&'static str]) -> String {
    let there = || format!("there are {}", hook::listed(words));
    if hook::LOGIT.contains(&text) {
        match ty {
            Ty::RowIndex | Ty::RowState | Ty::QueryTile => {
                return format!("no `{text}` here: this is of queries alone, with no key yet; {}", there());
            }
            Ty::KvIndex => return format!("no `{text}` here: this is of a key alone, for all queries; {}", there()),
            _ => {}
        }
    }
    // another side's coordinate is another number
    let side =
        |word: &str| word.split_once('_').map(|(side, _)| side.to_owned()).filter(|side| side == "qo" || side == "kv");
    let alike =
        words.iter().copied().filter(|word| side(text).is_none_or(|of| side(word).is_none_or(|there| there == of)));
    let hint = names::nearest(text, alike).map_or_else(there, |near| format!("did you mean `{near}`?"));
    format!("no `{text}` here: {hint}")
}
