//! Sampling of tokens: what it means, its checks, and its implementation on the CPU. The CUDA backend takes the same
//! descriptors and gives the same bits.
//!
//! Logits go through penalties, the token mask and the temperature; filters keep the likeliest tokens; one is drawn.
//! Everything that decides is in integers, or in f32 in a fixed order ([`fixed_point`]), so that a result depends on a
//! row, its parameters, its seed and its position alone: neither on the number of rows, nor on the row's place among
//! them, nor on the device.
//!
//! Without top-k, a filtered row is drawn from by rejection, as FlashInfer does it: tokens of the whole row are drawn,
//! [`CANDIDATES`] at a time, until the filters keep one. Rejected tokens end the part of the row that is drawn from
//! next.
//!
//! Defined for every input: NaN counts as -inf; if there is +inf, such tokens share the probability; among equal logits
//! the lower id comes first; a row without an allowed token gives id -1.

mod blocks;
pub mod check;
pub mod fixed_point;
mod params;
mod row;
mod sample;
mod verify;

pub use blocks::BLOCK_TOKENS;
pub use check::MAX_TOP;
pub use params::{FilterOrder, LogProbs, Penalties, PerRow, SampleOut, SamplingParams, Source, TopLogProbs};
pub use row::{CANDIDATES, DRAWS_OF_CANDIDATE};
pub use sample::{FilterOut, keep, sample};
pub(crate) use verify::coin::CUDA as COIN;
pub use verify::{
    ChainDrafts, ChainOut, DraftSizes, MAX_NODES, TreeDrafts, TreeOut, check_chain, check_tree, verify_chain,
    verify_tree,
};
