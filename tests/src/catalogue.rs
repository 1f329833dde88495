//! The catalogue of attention variants.
//!
//! Each row has an expression of this language and an independent formula in plain f64 loops.
//! `book/src/catalogue.md` is generated from these entries.

pub mod cpu_cases;
pub mod docs;
pub mod entry;
pub mod gpu_cases;
pub mod kernels;
pub mod mask_file;
pub mod masks;
pub mod rows;
pub mod run;

pub use crate::reference::{At, Formula, Shape};
pub use entry::{Entry, Instance};

use attn_core::lang::VariantDesc;

/// Every entry, in the order of rows.
pub fn entries() -> Vec<Entry> {
    let mut entries = [masks::entries(), rows::entries()].concat();
    entries.sort_by_key(|entry| entry.row);
    entries
}

/// The variants that only the catalogue needs. They are written here, with the public language.
pub fn variants() -> Vec<&'static VariantDesc> {
    [masks::variants(), rows::variants()].concat()
}

/// Registers the stock variants and those of the catalogue.
///
/// # Panics
/// Two of them share a name.
pub fn register() {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    attn_core::registry::register(&variants()).expect("no two share a name");
}
