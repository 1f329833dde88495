//! Sampling of tokens: what it means, its checks, and its implementation on the CPU. The CUDA backend takes the same
//! descriptors and gives the same bits.
//!
//! Logits go through penalties, the token mask and the temperature; filters keep the likeliest tokens; one is drawn.
//! Everything that decides is in integers ([`fixed_point`]), so that a result depends on a row, its parameters, its
//! seed and its position alone: neither on the number of rows, nor on the row's place among them, nor on the device.
//!
//! Defined for every input: NaN counts as -inf; if there is +inf, such tokens share the probability; among equal logits
//! the lower id comes first; a row without an allowed token gives id -1.

pub mod check;
pub mod fixed_point;
mod params;
mod row;
mod sample;
mod verify;

pub use check::MAX_TOP;
pub use fixed_point::BLOCK_TOKENS;
pub use params::{FilterOrder, LogProbs, Penalties, PerRow, SampleOut, SamplingParams, Source, TopLogProbs};
pub use sample::{Keep, keep, sample};
pub use verify::{ChainDrafts, ChainOut, TreeDrafts, TreeOut, verify_chain, verify_tree};
