//! The core of attn-rs, without CUDA: the variant language, the registry of variants, KV layouts, the planner, and the
//! CPU backend.
//!
//! Users depend on the facade `attn-rs` (lib name `attn`), which re-exports this crate.

// macros emit paths that start with `::attn`; inside this crate `attn` must name the crate itself
#[allow(unused_extern_crates)] // used by tests alone
extern crate self as attn;

pub mod batch;
pub mod cpu;
pub mod dtype;
mod error_kind;
mod excerpt;
pub mod expr;
#[doc(hidden)]
pub mod headers;
pub mod indexer;
pub mod lang;
pub mod nearest;
pub mod ops;
pub mod parallel;
pub mod plan;
pub mod registry;
pub mod sampling;
pub mod spec;
pub mod state;
pub mod tensor;

#[doc(hidden)]
pub mod __private;

pub use error_kind::ErrorKind;
pub use lang::{bits, random};

pub use expr::{ExprError, Variant, VariantSpec};
pub use registry::{Registry, RegistryError};

pub use attn_macros::{VariantParams, attention_variant, compose, device_fn, device_type, kv_format};
