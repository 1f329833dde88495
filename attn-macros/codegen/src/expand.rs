//! What the attributes have in common: the item is kept, with or without errors.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{budget, depth, loop_attributes, report::Report};

/// What `read` finds in an item that is within the budgets.
pub(crate) fn read<T>(item: TokenStream, read: impl FnOnce(TokenStream) -> Result<T, Report>) -> Result<T, Report> {
    depth::check_item(&item)?;
    budget::checked(budget::first_of(&item), || read(item))
}

/// The item, without the attributes that rustc does not know, and what `beside` makes of it, or its errors.
pub(crate) fn kept(item: TokenStream, beside: impl FnOnce(TokenStream) -> Result<TokenStream, Report>) -> TokenStream {
    if let Err(report) = depth::check_item(&item) {
        let errors = report.into_tokens();
        return quote!(#item #errors);
    }
    let beside = budget::checked(budget::first_of(&item), || beside(item.clone()));
    let beside = beside.unwrap_or_else(Report::into_tokens);
    let item = loop_attributes::removed(item);
    quote!(#item #beside)
}
