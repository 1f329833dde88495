//! The attributes that the text alone reads: `#[unroll(2)]`. rustc does not know them, so the kept item is without.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The tokens without `#[unroll(..)]` and, in a `#[device_mod]`, `#[call]`.
///
/// Tokens without such an attribute stay as they are: rustc loses the precedence of an expression that a macro by
/// example was given, once a procedural macro makes its tokens anew.
pub(crate) fn removed(tokens: TokenStream) -> TokenStream {
    if !has_ours(tokens.clone()) {
        return tokens;
    }
    let mut out = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let is_attribute = matches!(out.last(), Some(TokenTree::Punct(p)) if p.as_char() == '#');
                if is_attribute && group.delimiter() == Delimiter::Bracket && is_ours(&group) {
                    out.pop();
                    continue;
                }
                let mut inner = Group::new(group.delimiter(), removed(group.stream()));
                inner.set_span(group.span());
                out.push(TokenTree::Group(inner));
            }
            token => out.push(token),
        }
    }
    out.into_iter().collect()
}

fn has_ours(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => is_ours(&group) || has_ours(group.stream()),
        _ => false,
    })
}

fn is_ours(attribute: &Group) -> bool {
    let mut tokens = attribute.stream().into_iter();
    match (tokens.next(), tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(name)), Some(TokenTree::Group(_)), None) => name == "unroll",
        (Some(TokenTree::Ident(name)), None, None) => name == "call",
        _ => false,
    }
}
