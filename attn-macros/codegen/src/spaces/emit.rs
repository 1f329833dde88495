//! What rustc decides: constants whose evaluation fails with the message.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

use super::found::{Condition, Deferred, Refusal, Summary};
use crate::{helper_module::with_helper, parse::Links, report::SpanRange};

/// The checks of an item; `fields` are the parameters of its struct, and `fix` adapts paths to the scope of the tokens.
pub(crate) fn checks(
    deferred: &[Deferred],
    links: &Links,
    fields: &TokenStream,
    fix: impl Fn(&syn::Path) -> syn::Path,
) -> TokenStream {
    let checks = deferred.iter().filter_map(|Deferred { conditions, refusal, span }| {
        let conditions: Option<Vec<_>> = conditions.iter().map(|c| condition(c, links, &fix)).collect();
        let conditions = conditions?;
        let refused = match refusal {
            Refusal::Mixed(message) => quote!(mixed(&[#(#conditions),*], #message)),
            Refusal::Axis { tensor, axis, messages } => {
                let tensor = tensor.trim_start_matches("r#");
                quote!(on_axis(&[#(#conditions),*], #fields, #tensor, #axis, [#(#messages),*]))
            }
        };
        let refused = spanned(quote!(::attn::__private::lang::lints::spaces::#refused), *span);
        let check = spanned(quote!(::attn::__private::lang::lints::spaces::refuse(#refused)), *span);
        Some(quote!(const _: () = #check;))
    });
    checks.collect()
}

/// `Spaces { .. }` of a helper.
pub(crate) fn summary(Summary { compared, subtracted, returned }: &Summary) -> TokenStream {
    let pairs = |pairs: &[(usize, usize)]| {
        let pairs = pairs.iter().map(|(a, b)| quote!((#a, #b)));
        quote!(&[#(#pairs),*])
    };
    let (compared, subtracted) = (pairs(compared), pairs(subtracted));
    let returned = returned.iter().map(|(part, arg, scaled)| quote!((#part, #arg, #scaled)));
    quote! {
        ::attn::__private::lang::lints::spaces::Spaces {
            compared: #compared,
            subtracted: #subtracted,
            returned: &[#(#returned),*],
        }
    }
}

/// Whether a condition holds, as a call with the name of the helper first.
fn condition(condition: &Condition, links: &Links, fix: &impl Fn(&syn::Path) -> syn::Path) -> Option<TokenStream> {
    let (Condition::Returns { helper, .. } | Condition::Relates { helper, .. }) = condition;
    let path = fix(path_of(helper, links)?);
    let name = path.segments.last()?.ident.to_string();
    let spaces = with_helper(&path, &quote!(&__helper::SPACES));
    Some(match condition {
        Condition::Returns { part, arg, unscaled, .. } => {
            quote!(::attn::__private::lang::lints::spaces::returns(#name, #spaces, #part, #arg, #unscaled))
        }
        Condition::Relates { a, b, subtracts, .. } => {
            quote!(::attn::__private::lang::lints::spaces::relates(#name, #spaces, #a, #b, #subtracts))
        }
    })
}

/// The Rust path of a helper.
fn path_of<'a>(helper: &str, links: &'a Links) -> Option<&'a syn::Path> {
    links.helpers.iter().find(|(name, _)| name == helper).map(|(_, path)| path)
}

/// Tokens whose first and last span are those of a range: rustc joins them where it shows an error.
fn spanned(tokens: TokenStream, range: SpanRange) -> TokenStream {
    let last = tokens.clone().into_iter().count().saturating_sub(1);
    let respanned = |(n, mut token): (usize, TokenTree)| {
        let at = if n == last && n > 0 { range.end() } else { range.start() };
        token.set_span(at);
        token
    };
    tokens.into_iter().enumerate().map(respanned).collect()
}
