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

mod budget;
mod condition;
mod constant;
mod definitions;
mod descriptor;
mod error;
mod field;
mod inlined;
mod items;
mod kept;
mod links;
mod module;
mod path;
mod reads;
mod spaces;
mod tile_form;
mod types;
mod variant;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use attn_core::lang::VariantDesc;
use sha2::{Digest as _, Sha256};

pub use error::{Diagnostic, TextError};

type Variants = Vec<&'static VariantDesc>;

/// What was read before, by the hash of its files. Descriptors live as long as the program, so each text is read once.
static READ: LazyLock<Mutex<HashMap<[u8; 32], Variants>>> = LazyLock::new(Mutex::default);

/// Reads the variants of source files, given as names and contents, in their order. Files see the constants, helpers
/// and types of each other. Names stand in `#line` directives and errors.
///
/// A text may come from anyone: what it may cost is bounded, in time and in memory. Descriptors live as long as the
/// program, and are a few times as long as the text without its comments; nothing else of a text is kept, and nothing
/// of a text that is refused. Threads read texts at the same time.
///
/// # Errors
/// Text that is not Rust, that the macros refuse, that names what the files do not have, that needs rustc, or that
/// costs too much.
pub fn load(files: &[(&str, &str)]) -> Result<Variants, TextError> {
    budget::check_files(files)?;
    let key = hash(files);
    if let Some(variants) = READ.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(variants.clone());
    }
    // tokens and their places are freed with the thread; its stack is as large as the nesting of a text needs
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("attn-text".to_owned()).stack_size(budget::STACK);
        let reading = reader.spawn_scoped(scope, || read(key, files));
        let reading = reading.map_err(|error| TextError::Thread { why: error.to_string() })?;
        reading.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    })
}

/// Reads a text that was not known.
fn read(key: [u8; 32], files: &[(&str, &str)]) -> Result<Variants, TextError> {
    let read = || module::Module::parse(files).and_then(module::Module::variants);
    let (made, enough) = attn_codegen::budget::within(budget::STEPS, read);
    let made = if enough { made } else { Err(TextError::Steps { most: budget::STEPS, way_out: budget::PARTS }) };
    let (kept, is_new) = match made {
        Ok(variants) => match READ.lock().unwrap_or_else(PoisonError::into_inner).entry(key) {
            Entry::Vacant(entry) => (Ok(entry.insert(variants).clone()), true),
            // another thread read it meanwhile
            Entry::Occupied(entry) => (Ok(entry.get().clone()), false),
        },
        Err(error) => (Err(error), false),
    };
    match is_new {
        true => kept::keep(),
        // SAFETY: nobody knows the descriptors that were made here: an error has strings of its own
        false => unsafe { kept::discard() },
    }
    kept
}

/// A hash of names and contents.
fn hash(files: &[(&str, &str)]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in files.iter().flat_map(|(name, text)| [name, text]) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}
