//! Finds the names in a `#[require]`: fields, and dimensions of `Dims`.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::quote;
use syn::visit::Visit;
use syn::{Expr, ExprPath, Ident};

use super::dims::DIMS;
use super::field::{Field, Kind};

/// A block that returns `$failed` if the condition does not hold, and skips the check while a tensor is unset or a
/// dimension is unknown. In scope: `self`, and `dims`.
pub(super) fn check(condition: &Expr, fields: &[Field], failed: &TokenStream) -> TokenStream {
    let mut words = Identifiers::default();
    words.visit_expr(condition);
    let mut check = quote! {
        let __holds: bool = #condition;
        if !__holds {
            return ::core::result::Result::Err(#failed);
        }
    };
    for word in &words.0 {
        check = match fields.iter().find(|f| f.ident == *word) {
            Some(Field { kind: Kind::Tensor(_) | Kind::Out(_), .. }) => quote! {
                let #word = &self.#word;
                if ::attn::__private::TensorField::is_set(#word) { #check }
            },
            Some(_) => quote!(let #word = self.#word; #check),
            None if DIMS.iter().any(|d| word == d) => quote! {
                if let ::core::option::Option::Some(#word) = ::attn::__private::dim_i32(dims.#word) { #check }
            },
            // a constant, or an error that rustc reports
            None => check,
        };
    }
    quote!({ #check })
}

/// Collects single identifiers.
#[derive(Default)]
struct Identifiers(BTreeSet<Ident>);

impl<'ast> Visit<'ast> for Identifiers {
    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        self.0.extend(path.path.get_ident().cloned());
    }
}
