//! `#[derive(VariantParams)]`: the fields of a variant become parameters by name.
//!
//! Flow: `field` reads the fields and their attributes, `shape` turns shapes into checked arithmetic,
//! `condition` finds what a `#[require]` talks about, `emit` writes the impl.

mod condition;
mod emit;
mod field;
mod messages;
mod shape;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use syn::{Data, DeriveInput, Fields};

use crate::report::Report;

/// Words that shapes and conditions know beside the fields: the fields of `Dims`.
const DIMS: [&str; 7] = ["qo_heads", "kv_heads", "head_dim", "value_dim", "batch", "qo_tokens", "kv_tokens"];

/// Expands the derive. On errors, all of them come at once, with an impl that keeps the compiler from
/// complaining about its absence too.
#[must_use]
pub fn derive(input: TokenStream) -> TokenStream {
    let item = match syn::parse2::<DeriveInput>(input) {
        Ok(item) => item,
        Err(error) => return error.into_compile_error(),
    };
    let mut report = Report::default();
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
    if report.is_empty() {
        emit::params(&item, &fields, &checks)
    } else {
        let errors = report.into_tokens();
        let fallback = emit::fallback(&item);
        quote::quote!(#errors #fallback)
    }
}
