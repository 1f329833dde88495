//! The forms of terms.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::{ir::Op, types::Ty};

/// `Some(local)` or `None`.
pub(super) fn option(local: Option<usize>) -> TokenStream {
    local.map_or_else(|| quote!(None), |local| quote!(Some(#local)))
}

/// The number at the end of a method's name, without `_at`.
pub(super) fn bits_of(method: &str) -> u8 {
    let digits = method.trim_end_matches("_at").trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.parse().unwrap_or(0)
}

/// The name of a parameter without `r#`.
pub(super) fn plain(name: &str) -> &str {
    name.trim_start_matches("r#")
}

/// A value that is not known, and those of its parts that have effects.
pub(super) fn unknown(of: &[TokenStream]) -> TokenStream {
    quote!(__extents::Term::Unknown { of: &[#(#of),*] })
}

/// `ConstValue::I32(3)` as a term.
pub(super) fn literal(value: &TokenStream) -> TokenStream {
    quote!(__extents::Term::Literal { value: ::attn::__private::lang::desc::ConstValue::#value })
}

/// A function of `interval` of a term.
pub(super) fn unary(function: &str, of: &TokenStream) -> TokenStream {
    let function = interval(function);
    quote!(__extents::Term::Unary { function: #function, of: &#of })
}

/// A function of two terms.
pub(super) fn binary(function: &TokenStream, a: &TokenStream, b: &TokenStream) -> TokenStream {
    quote!(__extents::Term::Binary { function: #function, of: &[#a, #b] })
}

/// `if condition { then } else { other }`.
pub(super) fn choice(condition: &TokenStream, then: &TokenStream, other: &TokenStream) -> TokenStream {
    quote!(__extents::Term::If { condition: &#condition, then: &#then, other: &#other })
}

/// A function of `interval` by name.
pub(super) fn interval(function: &str) -> TokenStream {
    let function = format_ident!("{function}");
    quote!(__interval::#function)
}

/// The function of an operator; sums and products of i32 may overflow.
pub(super) fn operator(op: Op) -> TokenStream {
    let function = format_ident!("{}", op.function());
    match op {
        Op::Add | Op::Sub | Op::Mul => quote!(__extents::#function),
        _ => quote!(__interval::#function),
    }
}

/// The function of `interval` that makes a value one of an integer type.
pub(super) fn cast(ty: &Ty) -> Option<&'static str> {
    Some(match ty {
        Ty::I32 => "cast_i32",
        Ty::U32 => "cast_u32",
        Ty::U8 => "cast_u8",
        Ty::U64 => "cast_u64",
        Ty::I64 => "cast_i64",
        _ => return None,
    })
}
