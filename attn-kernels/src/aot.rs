//! Cubins that a build script compiles ahead of time and embeds.
//!
//! ```text
//! build.rs   Aot::new(my_variants::VARIANTS()).expressions(["causal + mine(x=1)"]).build_script();
//! main.rs    attn::include_prebuilt!();
//! ```
//!
//! The variants live in a crate of their own, which is both a dependency and a build dependency of the embedding crate.
//! Build scripts use the same cache and the same keys as the run time, so a missing or stale cubin leads to a
//! compilation, never to wrong code.

mod build;
mod embed;
mod environment;
mod report;
mod sources;

pub use build::Aot;
pub use report::{AotError, AotReport};

pub use crate::prebuilt::{Prebuilt, archs, embedded, find, register};
