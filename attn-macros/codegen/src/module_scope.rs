//! What the items of a `#[device_mod]` see of each other.

use std::collections::{HashMap, HashSet};

use crate::types::Ty;

/// What the functions of a module see of each other.
#[derive(Debug, Default)]
pub struct Scope {
    /// Functions by name.
    pub functions: HashMap<String, Signature>,
    /// Structs by name.
    pub structs: HashMap<String, Struct>,
    /// Constants by name.
    pub consts: HashMap<String, Ty>,
    /// The traits of type parameters.
    pub traits: HashMap<String, Trait>,
    /// Types that the module imports: CUDA has them under the same names.
    pub imports: HashSet<String>,
}

/// The types of a function.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Every generic parameter, in order.
    pub generics: Vec<String>,
    /// Those that are types.
    pub types: Vec<String>,
    /// Arguments, with `self`.
    pub args: Vec<Ty>,
    /// Result.
    pub ret: Ty,
}

/// A struct's fields, in order.
#[derive(Debug)]
pub struct Struct {
    /// Type parameters.
    pub generics: Vec<String>,
    /// Names and types.
    pub fields: Vec<(String, Ty)>,
}

/// The trait of a type parameter. CUDA has its items by hand: `LEAST<T>`, `to_i64(x)`.
#[derive(Debug, Default)]
pub struct Trait {
    /// Associated constants.
    pub consts: HashMap<String, Ty>,
    /// Methods and associated functions.
    pub functions: HashMap<String, Signature>,
}
