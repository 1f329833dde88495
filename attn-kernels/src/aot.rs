//! Cubins that a build script compiles ahead of time and embeds.
//!
//! ```text
//! // build.rs
//! build_script(&AotOptions {
//!     variants: my_variants::variants(),
//!     expressions: &["causal + mine(x=1)"],
//!     ..AotOptions::default()
//! });
//! // main.rs
//! attn::include_prebuilt!();
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

pub use build::{AotOptions, build, build_script};
pub use report::{AotError, AotReport};

pub use crate::prebuilt::{Prebuilt, archs, embedded, find, register};
