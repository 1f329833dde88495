//! Turns an extent into checked arithmetic: overflow and division by zero are errors.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{BinOp, Block, Expr, Lit, Stmt, UnOp};

use super::dims::{COUNTS, DIMS};
use super::field::{Field, Kind};
use super::messages;
use crate::names::nearest;
use crate::report::Report;

/// An extent as an expression of type i64 (or bool inside conditions) that may return a `ShapeProblem`. In scope:
/// `self`, and `dims`.
pub(super) fn extent(expr: &Expr, fields: &[Field], report: &mut Report) -> TokenStream {
    let mut sub = |expr: &Expr| extent(expr, fields, report);
    match expr {
        Expr::Paren(paren) => sub(&paren.expr),
        Expr::Group(group) => sub(&group.expr),
        Expr::Binary(binary) => {
            let (a, b) = (sub(&binary.left), sub(&binary.right));
            operation(&binary.op, &a, &b).unwrap_or_else(|| refuse(expr, messages::SHAPE_OP, report))
        }
        Expr::Unary(unary) => {
            let a = sub(&unary.expr);
            match unary.op {
                UnOp::Neg(_) => quote!((0i64 - #a)),
                UnOp::Not(_) => quote!((!#a)),
                _ => refuse(expr, messages::SHAPE_OP, report),
            }
        }
        Expr::If(branch) => {
            let condition = sub(&branch.cond);
            let then = block(&branch.then_branch, fields, report);
            let otherwise = match &branch.else_branch {
                Some((_, other)) => extent(other, fields, report),
                None => refuse(expr, messages::SHAPE_OP, report),
            };
            quote!(if #condition { #then } else { #otherwise })
        }
        Expr::Block(inner) => block(&inner.block, fields, report),
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(n) if n.suffix().is_empty() && n.base10_parse::<i64>().is_ok() => quote!(#n),
            Lit::Bool(b) => quote!(#b),
            _ => refuse(expr, messages::SHAPE_LITERAL, report),
        },
        Expr::Path(path) => match path.path.get_ident() {
            Some(word) => dimension(word, fields, report),
            None => refuse(expr, messages::SHAPE_OP, report),
        },
        _ => refuse(expr, messages::SHAPE_OP, report),
    }
}

/// Whether an extent grows with a count of the batch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Growth {
    /// It names no count.
    Fixed,
    /// It is at least as large for larger counts: a sum or product of such extents, or a difference to or quotient by
    /// what is fixed.
    Grows,
    /// It names a count in another way.
    Other,
}

/// The axes of a tensor that grow with a count of the batch, as bits.
pub(super) fn growing_axes(field: &Field, fields: &[Field]) -> u8 {
    let extents = field.shape.iter().flat_map(|shape| &shape.value).take(4).enumerate();
    extents.fold(0, |axes, (axis, extent)| axes | u8::from(growth(extent, fields) == Growth::Grows) << axis)
}

/// How an extent depends on the counts of the batch.
fn growth(expr: &Expr, fields: &[Field]) -> Growth {
    use Growth::{Fixed, Grows, Other};
    match expr {
        Expr::Paren(paren) => growth(&paren.expr, fields),
        Expr::Group(group) => growth(&group.expr, fields),
        Expr::Path(path) => {
            let word = path.path.get_ident();
            let counts = |word: &syn::Ident| COUNTS.iter().any(|count| word == count);
            if word.is_some_and(|word| counts(word) && fields.iter().all(|f| f.ident != *word)) { Grows } else { Fixed }
        }
        Expr::Binary(binary) => match (&binary.op, growth(&binary.left, fields), growth(&binary.right, fields)) {
            (_, Fixed, Fixed) => Fixed,
            (BinOp::Add(_) | BinOp::Mul(_), Fixed | Grows, Fixed | Grows)
            | (BinOp::Sub(_) | BinOp::Div(_), Grows, Fixed) => Grows,
            _ => Other,
        },
        Expr::Unary(unary) => {
            if growth(&unary.expr, fields) == Fixed {
                Fixed
            } else {
                Other
            }
        }
        Expr::If(branch) => {
            let of_block = |block: &Block| match block.stmts.as_slice() {
                [Stmt::Expr(expr, None)] => growth(expr, fields),
                _ => Other,
            };
            let otherwise = branch.else_branch.as_ref().map_or(Other, |(_, other)| growth(other, fields));
            let all = [growth(&branch.cond, fields), of_block(&branch.then_branch), otherwise];
            if all == [Fixed; 3] { Fixed } else { Other }
        }
        Expr::Block(inner) => match inner.block.stmts.as_slice() {
            [Stmt::Expr(expr, None)] => growth(expr, fields),
            _ => Other,
        },
        _ => Fixed,
    }
}

fn operation(op: &BinOp, a: &TokenStream, b: &TokenStream) -> Option<TokenStream> {
    let checked = |method: &str| {
        let method = quote::format_ident!("{method}");
        quote!(i64::#method(#a, #b).ok_or(::attn::__private::ShapeProblem::Arithmetic)?)
    };
    Some(match op {
        BinOp::Add(_) => checked("checked_add"),
        BinOp::Sub(_) => checked("checked_sub"),
        BinOp::Mul(_) => checked("checked_mul"),
        BinOp::Div(_) => checked("checked_div"),
        BinOp::Rem(_) => checked("checked_rem"),
        BinOp::And(_) | BinOp::Or(_) | BinOp::Eq(_) | BinOp::Ne(_) => quote!((#a #op #b)),
        BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => quote!((#a #op #b)),
        _ => return None,
    })
}

fn block(block: &Block, fields: &[Field], report: &mut Report) -> TokenStream {
    match block.stmts.as_slice() {
        [Stmt::Expr(expr, None)] => extent(expr, fields, report),
        _ => refuse(block, messages::SHAPE_BLOCK, report),
    }
}

/// A field, or else a dimension: a field hides a dimension of the same name.
fn dimension(word: &syn::Ident, fields: &[Field], report: &mut Report) -> TokenStream {
    let name = word.to_string();
    match fields.iter().find(|f| f.ident == *word).map(|f| f.kind) {
        Some(Kind::Integer) => quote!(i64::from(self.#word)),
        Some(Kind::Bool) => quote!(self.#word),
        Some(_) => refuse(word, &messages::not_an_integer(&name), report),
        None if DIMS.contains(&name.as_str()) => quote!(::attn::__private::dim(dims.#word)?),
        None => {
            let integers = fields.iter().filter(|f| f.kind == Kind::Integer).map(|f| f.name.as_str());
            let hint = nearest(&name, DIMS.into_iter().chain(integers)).map(str::to_owned);
            refuse(word, &messages::unknown_word(&name, hint.as_deref()), report)
        }
    }
}

fn refuse(node: &impl quote::ToTokens, message: &str, report: &mut Report) -> TokenStream {
    report.on(node, message);
    quote!(0i64)
}
