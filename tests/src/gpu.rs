//! The GPU of tests that compare with one.

use attn::Engine;
use attn_needs::{Need, needed};

/// A GPU; `None` after the skip was recorded.
pub fn gpu() -> Option<Engine> {
    needed(Need::Gpu, Engine::cuda(0))
}

/// The CPU, and a GPU if there is one; else what is left out is recorded.
pub fn engines() -> impl Iterator<Item = Engine> {
    std::iter::once(Engine::cpu()).chain(gpu())
}
