//! Collects errors, so that a user sees all of an item's at once.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The errors found so far.
#[derive(Debug, Default)]
pub struct Report {
    errors: Vec<syn::Error>,
}

impl Report {
    /// Adds an error at a span.
    pub fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new(span, message));
    }

    /// Adds an error over all tokens of a node.
    pub fn on(&mut self, tokens: &impl ToTokens, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new_spanned(tokens, message));
    }

    /// Adds a parser's error.
    pub fn push(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// One `compile_error!` for each error.
    #[must_use]
    pub fn into_tokens(self) -> TokenStream {
        self.errors
            .into_iter()
            .map(syn::Error::into_compile_error)
            .collect()
    }
}
