//! Cubins made ahead of time, by a build script, and embedded.
//!
//! ```text
//! build.rs   Aot::new(my_variants::VARIANTS()).expressions(["causal + mine(x=1)"]).build_script();
//! main.rs    attn::include_prebuilt!();
//! ```
//!
//! The variants live in a crate of their own, which is both dependency and build-dependency of the crate that embeds. What is
//! compiled goes through the same cache as at run time, and is found at run time by the same key: a missing or stale
//! cubin means compiling, never wrong code.

mod build;
mod prebuilt;
mod report;

pub use build::Aot;
pub use prebuilt::{Prebuilt, archs, embedded, find, register};
pub use report::{AotError, AotReport};
