//! The items of a text that macros read, each with its file.

use std::collections::HashMap;

use proc_macro2::TokenStream;
use syn::{Item, ItemFn, ItemImpl};

/// An item and the number of its file.
pub(crate) struct In<T> {
    pub(crate) file: usize,
    pub(crate) item: T,
}

/// Functions with `#[device_fn]` by name, with the arguments of the attribute.
pub(crate) type Helpers = HashMap<String, In<(TokenStream, ItemFn)>>;
/// Structs and enums with `#[device_type]`.
pub(crate) type Types = HashMap<String, In<(TokenStream, Item)>>;
/// Impls with `#[attention_variant]`.
pub(crate) type Impls = Vec<In<(TokenStream, ItemImpl)>>;
