//! Emits the impl of `VariantParams`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::DeriveInput;
use syn::spanned::Spanned as _;

use super::field::{Field, ParamsModel, doc};
use super::{condition, messages, shape};
use crate::report::Report;

/// The checks of a binding as tokens: emitting them may report errors.
#[derive(Debug, Default)]
pub(super) struct Checks {
    require: Vec<TokenStream>,
    shapes: Vec<TokenStream>,
    bind: Vec<TokenStream>,
}

impl Checks {
    pub(super) fn new(fields: &[Field], report: &mut Report) -> Self {
        let mut checks = Checks::default();
        for (i, field) in fields.iter().enumerate() {
            let ident = &field.ident;
            if let Some(require) = &field.require {
                let failed = quote! {
                    ::attn::__private::require_failed(
                        &<Self as ::attn::__private::lang::VariantParams>::FIELDS[#i],
                        ::attn::__private::lang::params::ParamField::to_value(&self.#ident),
                    )
                };
                checks.require.push(condition::check(&require.value, fields, &failed));
            }
            if field.kind.rank().is_some() {
                let written = field.shape.iter().flat_map(|shape| &shape.value);
                let extents: Vec<_> = written.map(|e| shape::extent(e, fields, report)).collect();
                checks.shapes.push(quote!(#i => ::std::vec![#(#extents),*]));
                checks.bind.push(bind_tensor(i, field));
            }
        }
        checks
    }
}

/// Fills and checks one tensor. In scope: `self`, and `dims`.
fn bind_tensor(i: usize, field: &Field) -> TokenStream {
    let ident = &field.ident;
    let default = match &field.default {
        None => quote!(::core::option::Option::None),
        // a default is computed only for a known shape: the dimensions that it needs are known then too
        Some(default) => {
            let closure = &default.value;
            let call = quote_spanned!(closure.span()=> ::attn::__private::call_default(&*self, dims, #closure));
            quote! {
                if __want.is_ok() && ::attn::__private::TensorField::wants_default(&self.#ident) {
                    ::core::option::Option::Some(#call)
                } else {
                    ::core::option::Option::None
                }
            }
        }
    };
    quote! {{
        let __want = ::attn::__private::lang::VariantParams::shape(&*self, #i, dims);
        let __default = #default;
        let __field = &<Self as ::attn::__private::lang::VariantParams>::FIELDS[#i];
        ::attn::__private::bind_tensor(&mut self.#ident, __field, __want, __default)?;
    }}
}

/// The impl of `VariantParams`, and of `Default` where every field has one. After an error there is no model, and the
/// impl only keeps the compiler from reporting its absence too.
pub(super) fn params(item: &DeriveInput, model: Option<&ParamsModel>, checks: &Checks) -> TokenStream {
    let name = &item.ident;
    let (generics, types, bounds) = item.generics.split_for_impl();
    let made = match model {
        Some(ParamsModel { fields, .. }) => {
            let reads = fields.iter().map(read);
            quote!(Self { #(#reads),* })
        }
        None => quote!(return ::core::unreachable!()),
    };
    let refused = ParamsModel { doc: doc(&item.attrs), ..ParamsModel::default() };
    let ParamsModel { doc, fields } = model.unwrap_or(&refused);
    let descs = fields.iter().map(desc);
    let idents: Vec<_> = fields.iter().map(|f| &f.ident).collect();
    let names: Vec<_> = fields.iter().map(|f| &f.name).collect();
    let Checks { require, shapes, bind } = checks;
    let (default, notes) = (default(item, fields), notes(item, fields));
    quote! {
        #[automatically_derived]
        #[allow(clippy::all, clippy::pedantic, unreachable_code, unused_variables, unused_parens)]
        impl #generics ::attn::__private::lang::VariantParams for #name #types #bounds {
            const FIELDS: &'static [::attn::__private::lang::FieldDesc] = &[#(#descs),*];
            const DOC: &'static str = #doc;
            fn from_values(
                values: &::attn::__private::lang::ParamValues,
            ) -> ::core::result::Result<Self, ::attn::__private::lang::ParamError> {
                let __reader = ::attn::__private::lang::derive_support::ParamReader::new(values, Self::FIELDS)?;
                let __params: Self = #made;
                ::attn::__private::lang::VariantParams::require(&__params, &::core::default::Default::default())?;
                ::core::result::Result::Ok(__params)
            }
            fn set_values(
                &mut self,
                values: &::attn::__private::lang::ParamValues,
            ) -> ::core::result::Result<(), ::attn::__private::lang::ParamError> {
                let __reader = ::attn::__private::lang::derive_support::ParamReader::new(values, Self::FIELDS)?;
                #( self.#idents = __reader.or(#names, &self.#idents)?; )*
                ::attn::__private::lang::VariantParams::require(self, &::core::default::Default::default())?;
                ::core::result::Result::Ok(())
            }
            fn to_values(&self) -> ::attn::__private::lang::ParamValues {
                let mut __values = ::attn::__private::lang::ParamValues::default();
                #(
                    let __value = ::attn::__private::lang::params::ParamField::to_value(&self.#idents);
                    if let ::core::option::Option::Some(__value) = __value {
                        __values.set(#names, __value);
                    }
                )*
                __values
            }
            fn require(
                &self,
                dims: &::attn::__private::lang::Dims,
            ) -> ::core::result::Result<(), ::attn::__private::lang::params::RequireError> {
                #(#require)*
                ::core::result::Result::Ok(())
            }
            fn bind(
                &mut self,
                dims: &::attn::__private::lang::Dims,
            ) -> ::core::result::Result<(), ::attn::__private::lang::BindError> {
                // before the defaults, which may rely on the conditions, and after them, to check the defaults
                ::attn::__private::lang::VariantParams::require(self, dims)?;
                #(#bind)*
                ::attn::__private::lang::VariantParams::require(self, dims)?;
                ::core::result::Result::Ok(())
            }
            fn shape(
                &self,
                field: usize,
                dims: &::attn::__private::lang::Dims,
            ) -> ::core::result::Result<::std::vec::Vec<i64>, ::attn::__private::ShapeProblem> {
                ::core::result::Result::Ok(match field {
                    #(#shapes,)*
                    _ => ::std::vec![],
                })
            }
            fn visit_args(&self, visitor: &mut dyn ::attn::__private::lang::params::ArgVisitor) {
                #( ::attn::__private::lang::params::ParamField::visit(&self.#idents, visitor); )*
            }
        }
        #default
        #notes
    }
}

/// Warnings about fields that no hook reads: for each field, a constant that is deprecated if `#[attention_variant]`
/// finds the field unread. rustc shows its path, so that it has the name of the field.
fn notes(item: &DeriveInput, fields: &[Field]) -> TokenStream {
    let name = &item.ident;
    let (generics, types, bounds) = item.generics.split_for_impl();
    let numbers = 0..fields.len();
    let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
    let texts = fields.iter().map(|field| messages::UNREAD.replace("{name}", &field.name));
    quote! {
        const _: () = {
            #[doc(hidden)]
            #[allow(dead_code, missing_debug_implementations)]
            pub struct __Number<const FIELD: ::core::primitive::usize>;
            impl ::attn::__private::lang::lints::Numbered for __Number<{ ::core::primitive::usize::MAX }> {
                type Field = ::attn::__private::lang::lints::IsRead;
                const FIELD: Self::Field = ::attn::__private::lang::lints::IsRead;
            }
            #[allow(dead_code, non_camel_case_types, missing_debug_implementations)]
            mod parameter {
                #(
                    #[doc(hidden)]
                    pub struct #idents;
                    impl #idents {
                        #[deprecated(note = #texts)]
                        pub fn is_not_read(&self) {}
                    }
                )*
            }
            #(
                impl ::attn::__private::lang::lints::Numbered for __Number<#numbers> {
                    type Field = parameter::#idents;
                    const FIELD: Self::Field = parameter::#idents;
                }
            )*
            #[automatically_derived]
            impl #generics ::attn::__private::lang::lints::UnreadLints for #name #types #bounds {
                type Unread<const __FIELD: ::core::primitive::usize> = __Number<__FIELD>;
            }
        };
    }
}

fn desc(field: &Field) -> TokenStream {
    let Field { name, ty, doc, monotone, mutable, growing_axes, .. } = field;
    let option = |text: Option<&str>| match text {
        Some(text) => quote!(::core::option::Option::Some(#text)),
        None => quote!(::core::option::Option::None),
    };
    let written = field.shape.as_ref().map_or("", |s| &s.text);
    let default = option(field.default.as_ref().map(|d| &*d.text));
    let require = option(field.require.as_ref().map(|r| &*r.text));
    // the type's own span: rustc reports there a type that cannot be a parameter
    let ty = quote_spanned!(ty.span()=> <#ty as ::attn::__private::lang::params::ParamField>::TYPE);
    quote! {
        ::attn::__private::lang::FieldDesc {
            name: #name,
            doc: #doc,
            ty: #ty,
            shape: #written,
            default: #default,
            require: #require,
            monotone: #monotone,
            mutable: #mutable,
            growing_axes: #growing_axes,
        }
    }
}

fn read(field: &Field) -> TokenStream {
    let Field { ident, name, ty, .. } = field;
    match (field.kind.rank(), &field.default) {
        (Some(_), _) => quote!(#ident: __reader.tensor::<#ty>(#name)?),
        (_, None) => quote!(#ident: __reader.required::<#ty>(#name)?),
        (_, Some(default)) => {
            let value = &default.value;
            quote!(#ident: __reader.optional::<#ty>(#name, || #value)?)
        }
    }
}

fn default(item: &DeriveInput, fields: &[Field]) -> TokenStream {
    if fields.is_empty() || fields.iter().any(|f| f.default.is_none()) {
        return TokenStream::new();
    }
    let name = &item.ident;
    let (generics, types, bounds) = item.generics.split_for_impl();
    let values = fields.iter().map(|field| {
        let ident = &field.ident;
        match (field.kind.rank(), &field.default) {
            (Some(_), _) | (_, None) => quote!(#ident: ::core::default::Default::default()),
            (_, Some(default)) => {
                let value = &default.value;
                quote!(#ident: #value)
            }
        }
    });
    quote! {
        /// Every parameter at its default.
        #[automatically_derived]
        impl #generics ::core::default::Default for #name #types #bounds {
            fn default() -> Self {
                Self { #(#values),* }
            }
        }
    }
}
