//! The state that the functions of one item share during lowering.

use crate::report::Report;
use crate::types::{Ty, Types};

/// A constant that the text names, with its Rust path.
#[derive(Debug)]
pub struct ConstLink {
    /// Name in the text.
    pub name: String,
    /// Path in Rust.
    pub path: syn::Path,
}

/// The constants, helpers and types that the text links to by path, collected over all functions of an item.
#[derive(Debug, Default)]
pub struct Links {
    /// Constants.
    pub consts: Vec<ConstLink>,
    /// Helpers: name in the text, and path.
    pub helpers: Vec<(String, syn::Path)>,
    /// Structs and enums.
    pub types: Vec<TypeLink>,
}

/// A struct or enum that the text names, with its Rust path.
#[derive(Debug)]
pub struct TypeLink {
    /// Name in the text.
    pub name: String,
    /// Path in Rust.
    pub path: syn::Path,
    /// The span of the first comparison of its values.
    pub compared: Option<proc_macro2::Span>,
}

/// The state that the functions of one item share.
#[derive(Debug, Default)]
pub struct ItemContext {
    /// Type variables.
    pub types: Types,
    /// Links found.
    pub links: Links,
    /// Errors found.
    pub report: Report,
    /// The name of the helper being lowered: it may not call itself, and its constants have its name as a prefix.
    pub this_fn: Option<String>,
    /// The `#[device_mod]` around, whose every signature is known.
    pub module: Option<std::rc::Rc<crate::module_scope::Scope>>,
    /// The type parameters of the function of a `#[device_mod]`: the name and the trait.
    pub type_params: Vec<(String, String)>,
    /// The constants that this helper is generic over: Rust name, name in the text, type.
    pub generics: Vec<(String, String, Ty)>,
}
