//! The stock variants, one small file each, written with the public language alone: each is also an example.
//!
//! They register themselves where the feature `inventory` is on; [`variants`] is the table for everybody else.

// The macros emit paths that start with `::attn`; in a crate below the facade that is attn-core.
extern crate attn_core as attn;

mod alibi;
mod causal;
mod full;
mod qk_norm;
mod rope;
mod sigmoid;
mod sink;
mod sliding_window;
mod soft_cap;
#[cfg(test)]
mod testing;

pub use alibi::Alibi;
pub use causal::Causal;
pub use full::Full;
pub use qk_norm::QkNorm;
pub use rope::Rope;
pub use sigmoid::Sigmoid;
pub use sink::Sink;
pub use sliding_window::SlidingWindow;
pub use soft_cap::SoftCap;

use attn::lang::VariantDesc;

/// The stock variants, for a registry that `inventory` does not fill.
#[must_use]
pub fn variants() -> &'static [&'static VariantDesc] {
    attn::variants![Alibi, Causal, Full, QkNorm, Rope, Sigmoid, Sink, SlidingWindow, SoftCap]
}
