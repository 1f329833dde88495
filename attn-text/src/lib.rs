//! Attention variants as Rust text, read at run time: no rustc is needed, and a variant runs on CUDA devices about a
//! second after it was written.
//!
//! [`load`] reads what a source file with variants has: structs with `#[derive(VariantParams)]`, impls with
//! `#[attention_variant]`, `#[device_fn]`s, `#[device_type]`s and constants. It runs the macros of attn-rs over them
//! and makes descriptors of what they emit, so that a kernel has the text that it has when rustc compiled the file. A
//! mistake has the message of the macro, and its line and column in the file.
//!
//! What rustc alone could do is refused by name: hooks on the CPU, hooks that the host calls when it plans (`kv_range`,
//! lists of keys, remapped positions), defaults of tensors, and conditions that call functions.
//!
//! ```
//! let text = r#"
//!     use attn::prelude::*;
//!
//!     /// Keys within a distance.
//!     #[derive(Clone, VariantParams)]
//!     struct Near { #[require(distance >= 0)] distance: i32 }
//!
//!     #[attention_variant]
//!     impl AttentionVariant for Near {
//!         fn logits_mask(&self, at: LogitIndex) -> bool {
//!             (at.qo_pos - at.kv_pos).abs() <= self.distance
//!         }
//!     }
//! "#;
//! let variants = attn_text::load(&[("near.rs", text)])?;
//! assert_eq!(variants[0].name, "near");
//! let mut registry = attn_core::Registry::empty();
//! registry.register_all(&variants)?;
//! let variant = attn_core::Variant::parse_with("near(distance=3)", &registry)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod condition;
mod constant;
mod descriptor;
mod error;
mod expansion;
mod field;
mod links;
mod module;
mod spaces;
mod tile_form;
mod variant;

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use attn_core::lang::VariantDesc;

pub use error::{Diagnostic, TextError};

/// The files of a text, as names and contents.
type Files = Vec<(String, String)>;

/// What was read before. Descriptors live as long as the program, so each text is read once.
static READ: Mutex<Option<HashMap<Files, Vec<&'static VariantDesc>>>> = Mutex::new(None);

/// Reads the variants of source files, given as names and contents, in their order. Files see the constants, helpers
/// and types of each other. Names stand in `#line` directives and errors.
///
/// # Errors
/// Text that is not Rust, that the macros refuse, that names what the files do not have, or that needs rustc.
pub fn load(files: &[(&str, &str)]) -> Result<Vec<&'static VariantDesc>, TextError> {
    let key: Files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let read = read.get_or_insert_with(HashMap::new);
    if let Some(variants) = read.get(&key) {
        return Ok(variants.clone());
    }
    let variants = module::Module::parse(files)?.variants()?;
    read.insert(key, variants.clone());
    Ok(variants)
}
