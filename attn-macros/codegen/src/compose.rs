//! `compose!(A, B { .. })`: a chain of typed parts, so that a conflict is a type error at the part that causes it.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Expr, Token};

/// Expands `compose!`.
#[must_use]
pub fn expand(input: TokenStream) -> TokenStream {
    match Punctuated::<Expr, Token![,]>::parse_terminated.parse2(input) {
        Ok(parts) => chain(&parts),
        Err(error) => error.into_compile_error(),
    }
}

fn chain(parts: &Punctuated<Expr, Token![,]>) -> TokenStream {
    let start = quote!(::attn::lang::compose::Chain::new());
    // the call has the part's span: that is where the compiler then points
    let chain = parts.iter().fold(start, |chain, part| {
        let with = quote_spanned!(part.span()=> .with(#part));
        quote!(#chain #with)
    });
    quote!(#chain.finish())
}

#[cfg(test)]
mod tests {
    use super::expand;
    use quote::quote;

    #[test]
    fn parts_become_a_chain() {
        let got = expand(quote!(Causal, SoftCap { cap: 30.0 },)).to_string();
        let want = quote!(::attn::lang::compose::Chain::new().with(Causal).with(SoftCap { cap: 30.0 }).finish());
        assert_eq!(got, want.to_string());
        assert_eq!(expand(quote!()).to_string(), quote!(::attn::lang::compose::Chain::new().finish()).to_string());
        assert!(expand(quote!(Causal+)).to_string().contains("compile_error"));
    }
}
