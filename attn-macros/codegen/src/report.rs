//! Collects errors, so that all errors of an item are shown at once.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The first and the last token of a node: stable Rust cannot join their spans into one.
#[derive(Clone, Copy, Debug)]
pub struct SpanRange {
    first: Span,
    last: Span,
}

impl SpanRange {
    /// The tokens of a node.
    pub fn of(tokens: &impl ToTokens) -> SpanRange {
        let mut spans = tokens.to_token_stream().into_iter().map(|token| token.span());
        let first = spans.next().unwrap_or_else(Span::call_site);
        SpanRange { first, last: spans.last().unwrap_or(first) }
    }
}

impl SpanRange {
    /// The span of the first token.
    #[must_use]
    pub fn start(&self) -> Span {
        self.first
    }

    /// From the start of this range to the end of another.
    #[must_use]
    pub fn to(&self, other: SpanRange) -> SpanRange {
        SpanRange { first: self.first, last: other.last }
    }

    /// The span of the last token.
    #[must_use]
    pub fn end(&self) -> Span {
        self.last
    }
}

impl From<Span> for SpanRange {
    fn from(span: Span) -> SpanRange {
        SpanRange { first: span, last: span }
    }
}

/// The errors found so far.
#[derive(Debug, Default)]
pub struct Report {
    errors: Vec<syn::Error>,
}

impl From<syn::Error> for Report {
    fn from(error: syn::Error) -> Report {
        Report { errors: vec![error] }
    }
}

impl Report {
    /// One error over all tokens of a node.
    pub fn of(tokens: &impl ToTokens, message: impl std::fmt::Display) -> Report {
        syn::Error::new_spanned(tokens, message).into()
    }

    /// Adds an error at a span, or at a node that is lowered already.
    pub fn at(&mut self, range: impl Into<SpanRange>, message: impl std::fmt::Display) {
        let range = range.into();
        let mark = |span| syn::Ident::new("x", span);
        let (first, last) = (mark(range.first), mark(range.last));
        self.errors.push(syn::Error::new_spanned(quote::quote!(#first #last), message));
    }

    /// Adds an error over all tokens of a node.
    pub fn on(&mut self, tokens: &impl ToTokens, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new_spanned(tokens, message));
    }

    /// Adds an error of a parser.
    pub fn push(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// Adds the errors of another report.
    pub fn append(&mut self, other: Report) {
        self.errors.extend(other.errors);
    }

    /// Whether there are no errors.
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
