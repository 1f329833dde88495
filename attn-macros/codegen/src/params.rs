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

pub use field::{AttrArgument, Field, Kind, ParamsModel};

use crate::{budget, depth, expand, report::Report};

/// Expands the derive. Errors are reported all at once, with a fallback impl, so that the compiler does not report its
/// absence too.
pub fn derive(input: TokenStream) -> TokenStream {
    if let Err(report) = depth::check_item(&input) {
        return report.into_tokens();
    }
    let first = budget::first_of(&input);
    let params = || {
        let item: DeriveInput = syn::parse2(input)?;
        let (model, checks, errors) = match read(&item) {
            Ok((model, checks)) => (Some(model), checks, TokenStream::new()),
            Err(report) => (None, emit::Checks::default(), report.into_tokens()),
        };
        let params = emit::params(&item, model.as_ref(), &checks);
        Ok(quote::quote!(#errors #params))
    };
    budget::checked(first, params).unwrap_or_else(Report::into_tokens)
}

/// The model of a struct with the derive.
///
/// # Errors
/// The struct is refused.
pub fn analyse(input: TokenStream) -> Result<ParamsModel, Report> {
    expand::read(input, |input| read(&syn::parse2(input)?).map(|(model, _)| model))
}

/// The parameters, and the checks of a binding.
fn read(item: &DeriveInput) -> Result<(ParamsModel, emit::Checks), Report> {
    let mut report = Report::default();
    if let Data::Struct(data) = &item.data {
        if data.fields.len() > budget::FIELDS {
            budget::refuse(item.ident.span(), messages::too_many(data.fields.len()));
            return Err(report);
        }
        budget::spend(budget::OF_ITEM + 32 * data.fields.len());
    }
    let mut fields = match &item.data {
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
    let growing: Vec<u8> = fields.iter().map(|field| shape::growing_axes(field, &fields)).collect();
    fields.iter_mut().zip(growing).for_each(|(field, axes)| field.growing_axes = axes);
    let checks = emit::Checks::new(&fields, &mut report);
    match report.is_empty() {
        true => Ok((ParamsModel { doc: field::doc(&item.attrs), fields }, checks)),
        false => Err(report),
    }
}
