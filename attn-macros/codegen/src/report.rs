//! Collects errors, so that a user sees all of an item's at once.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The first and the last token of a node: stable Rust cannot join their spans into one.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    first: Span,
    last: Span,
}

impl Range {
    /// Of a node.
    pub fn of(tokens: &impl ToTokens) -> Range {
        let mut spans = tokens.to_token_stream().into_iter().map(|token| token.span());
        let first = spans.next().unwrap_or_else(Span::call_site);
        Range { first, last: spans.last().unwrap_or(first) }
    }
}

impl Range {
    /// Where it starts.
    #[must_use]
    pub fn start(&self) -> Span {
        self.first
    }

    /// From where this starts to where the other ends.
    #[must_use]
    pub fn to(&self, other: Range) -> Range {
        Range { first: self.first, last: other.last }
    }

    /// Its last token.
    #[must_use]
    pub fn end(&self) -> Span {
        self.last
    }
}

impl From<Span> for Range {
    fn from(span: Span) -> Range {
        Range { first: span, last: span }
    }
}

/// The errors found so far.
#[derive(Debug, Default)]
pub struct Report {
    errors: Vec<syn::Error>,
}

impl Report {
    /// Adds an error at a token, or at a node that was read already.
    pub fn at(&mut self, range: impl Into<Range>, message: impl std::fmt::Display) {
        let range = range.into();
        let mark = |span| syn::Ident::new("x", span);
        let (first, last) = (mark(range.first), mark(range.last));
        self.errors.push(syn::Error::new_spanned(quote::quote!(#first #last), message));
    }

    /// Adds an error over all tokens of a node.
    pub fn on(&mut self, tokens: &impl ToTokens, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new_spanned(tokens, message));
    }

    /// Adds a parser's error.
    pub fn push(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// Adds what another found.
    pub fn append(&mut self, other: Report) {
        self.errors.extend(other.errors);
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// One `compile_error!` for each error.
    #[must_use]
    pub fn into_tokens(self) -> TokenStream {
        self.errors.into_iter().map(syn::Error::into_compile_error).collect()
    }
}
