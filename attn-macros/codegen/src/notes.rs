//! Warnings that depend on the fields of the struct, which are known to rustc only: uses of constants that are
//! deprecated in that case.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::{emit, messages, names};

/// Most unread parameters that are reported at once.
const UNREAD: usize = 4;

/// Warnings about parameters that are not read and divisors that may be 0; `read`: the parameters that are read.
pub(crate) fn of<'a>(item: &syn::ItemImpl, used: &emit::Used, read: impl Iterator<Item = &'a str>) -> TokenStream {
    let read: Vec<&str> = read.collect();
    let ty = &item.self_ty;
    let allowed: Vec<_> = item.attrs.iter().filter(|a| a.path().is_ident("allow")).collect();
    let fields = quote!(<::attn::__private::lang::lints::Derived<#ty>>::FIELDS);
    let unread = (0..UNREAD).map(|nth| {
        quote_spanned! {ty.span()=>
            <::attn::__private::lang::lints::Derived<#ty>>::field::<
                { ::attn::__private::lang::lints::unread(#fields, &[#(#read),*], #nth) }
            >().is_not_read()
        }
    });
    let divisors = used.divisors.iter().filter(|(name, _)| !used.compared.contains(*name));
    let divisors: Vec<_> = divisors.map(|(name, at)| (name, names::rust(name, at.end()), at.end())).collect();
    let zero = divisors.iter().map(|(name, ident, at)| {
        quote_spanned!(*at=> MayBeZero::<{ ::attn::__private::lang::lints::may_be_zero(#fields, #name) }>::#ident)
    });
    let uses = unread.chain(zero).map(|note| quote!(#(#allowed)* const _: fn() = || #note;));
    let consts = divisors.iter().map(|(name, ident, _)| {
        let name = name.trim_start_matches("r#");
        let note = messages::MAY_BE_ZERO.replace("{name}", name);
        (quote!(const #ident: () = ();), quote!(#[deprecated(note = #note)] const #ident: () = ();))
    });
    let (without, with): (Vec<_>, Vec<_>) = consts.unzip();
    let may_be_zero = (!with.is_empty()).then(|| {
        quote! {
            struct MayBeZero<const POSSIBLE: bool>;
            #[allow(dead_code, non_upper_case_globals)]
            impl MayBeZero<false> { #(#without)* }
            #[allow(dead_code, non_upper_case_globals)]
            impl MayBeZero<true> { #(#with)* }
        }
    });
    quote!(#may_be_zero #(#uses)*)
}
