//! What a text defines: each name once, and nothing that `#[cfg]` decides. rustc checks that of a compiled file.

use std::collections::HashSet;

use quote::ToTokens as _;
use syn::{Attribute, ImplItem, Item, ItemImpl, ItemStruct, Meta, visit::Visit};

use crate::{module::Module, path::last_name};

impl Module {
    /// Whether an item is read. A name that is there already, and `#[cfg]`, are mistakes.
    pub(crate) fn is_read(&mut self, file: usize, item: &Item) -> bool {
        let (attrs, name) = match item {
            Item::Const(item) => (&item.attrs, Some((false, &item.ident))),
            Item::Fn(item) => {
                let is_helper = item.attrs.iter().any(|attr| last_name(attr.path()) == "device_fn");
                (&item.attrs, is_helper.then_some((false, &item.sig.ident)))
            }
            Item::Struct(item) => (&item.attrs, Some((true, &item.ident))),
            Item::Enum(item) => (&item.attrs, Some((true, &item.ident))),
            Item::Impl(item) if item.attrs.iter().any(|attr| last_name(attr.path()) == "attention_variant") => {
                (&item.attrs, None)
            }
            _ => return true,
        };
        if attrs.iter().any(is_for_tests) {
            return false;
        }
        if name.is_none() && matches!(item, Item::Fn(_)) {
            return true; // compiled code alone calls it
        }
        let mut cfg = Cfg(Vec::new());
        match item {
            // the macro says so of hooks
            Item::Impl(item) => item.attrs.iter().for_each(|attr| cfg.visit_attribute(attr)),
            item => cfg.visit_item(item),
        }
        for attr in cfg.0 {
            self.mistake(file, &attr, CFG);
        }
        if let Some((is_type, ident)) = name
            && ident != "_"
            && !self.defined.insert((is_type, ident.to_string()))
        {
            self.mistake(file, ident, format!("`{ident}` is defined twice: the files of a text are one module"));
            return false;
        }
        true
    }

    /// Reports what rustc would of the entries of an impl, and of a struct without the derive.
    pub(crate) fn check_entries(&mut self, file: usize, item: &ItemImpl, structure: &ItemStruct) {
        let mut seen = HashSet::new();
        for entry in &item.items {
            let ident = match entry {
                ImplItem::Fn(f) => &f.sig.ident,
                ImplItem::Const(c) => &c.ident,
                _ => continue,
            };
            if matches!(entry, ImplItem::Const(_)) && ident != "NORMALIZER" && ident != "MAX_FLOOR" {
                let message = format!("`AttentionVariant` has no constant `{ident}`: write it outside of the impl");
                self.mistake(file, ident, message);
            } else if !seen.insert(ident.to_string()) {
                self.mistake(file, ident, format!("`{ident}` is defined twice"));
            }
        }
        let mut fields = HashSet::new();
        for ident in structure.fields.iter().filter_map(|field| field.ident.as_ref()) {
            if !fields.insert(ident.to_string()) {
                self.mistake(file, ident, format!("`{ident}` is defined twice"));
            }
        }
        let derives = |attr: &Attribute| match &attr.meta {
            Meta::List(list) if attr.path().is_ident("derive") => list
                .tokens
                .to_token_stream()
                .into_iter()
                .any(|token| matches!(token, proc_macro2::TokenTree::Ident(name) if name == "VariantParams")),
            _ => false,
        };
        if !structure.attrs.iter().any(derives) {
            let name = &structure.ident;
            let message = format!(
                "`{name}` has no parameters: its struct is not marked with `#[derive(VariantParams)]`; put \
                 `#[derive(Clone, VariantParams)]` on it, also where it has no fields"
            );
            self.mistake(file, &item.self_ty, message);
        }
    }
}

const CFG: &str = "Rust text has no `#[cfg]`: no compiler says what holds. Leave the item out, or choose with a \
                   constant, `if FAST { .. }`";

/// Whether it is `#[cfg(test)]`.
fn is_for_tests(attr: &Attribute) -> bool {
    matches!(&attr.meta, Meta::List(list) if attr.path().is_ident("cfg") && list.tokens.to_string() == "test")
}

/// The `#[cfg]`s in an item.
struct Cfg(Vec<Attribute>);

impl<'ast> Visit<'ast> for Cfg {
    fn visit_attribute(&mut self, attr: &'ast Attribute) {
        if attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr") {
            self.0.push(attr.clone());
        }
    }
}
