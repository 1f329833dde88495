//! `#[derive(VariantParams)]`: the fields of a variant become parameters by name.
//!
//! `field` reads the fields and their attributes, `shape` turns shapes into checked arithmetic, `condition` finds the
//! names in a `#[require]`, `emit` writes the impl.

mod condition;
mod dims;
mod emit;
mod field;
mod messages;
mod shape;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use syn::{Data, DeriveInput, Fields};

use crate::{budget, depth, report::Report};

/// Expands the derive. Errors are reported all at once, with a fallback impl, so that the compiler does not report its
/// absence too.
#[must_use]
pub fn derive(input: TokenStream) -> TokenStream {
    if let Err(report) = depth::check_item(&input) {
        return report.into_tokens();
    }
    budget::checked(budget::first_of(&input), || Ok(read(input))).unwrap_or_else(Report::into_tokens)
}

fn read(input: TokenStream) -> TokenStream {
    let item = match syn::parse2::<DeriveInput>(input) {
        Ok(item) => item,
        Err(error) => return error.into_compile_error(),
    };
    let mut report = Report::default();
    if let Data::Struct(data) = &item.data
        && data.fields.len() > budget::FIELDS
    {
        budget::refuse(item.ident.span(), messages::too_many(data.fields.len()));
        return TokenStream::new();
    }
    if let Data::Struct(data) = &item.data {
        budget::spend(budget::OF_ITEM + 32 * data.fields.len());
    }
    let fields = match &item.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(named) => field::read_all(named.named.iter(), &mut report),
            Fields::Unit => Vec::new(),
            Fields::Unnamed(unnamed) => {
                report.on(unnamed, messages::UNNAMED);
                Vec::new()
            }
        },
        Data::Enum(data) => {
            report.at(data.enum_token.span, messages::NOT_A_STRUCT);
            Vec::new()
        }
        Data::Union(data) => {
            report.at(data.union_token.span, messages::NOT_A_STRUCT);
            Vec::new()
        }
    };
    let checks = emit::Checks::new(&fields, &mut report);
    let fields = report.is_empty().then_some(fields);
    let checks = if fields.is_some() { checks } else { emit::Checks::default() };
    let params = emit::params(&item, fields.as_deref(), &checks);
    let errors = report.into_tokens();
    quote::quote!(#errors #params)
}
