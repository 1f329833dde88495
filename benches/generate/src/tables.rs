//! The tables of FlashInfer's paper (arXiv 2501.01005) on a model: what a technique gives to whole steps, as ratios of
//! two sides that run in turns.
//!
//! Both sides have the same weights, and the same keys and values in their caches. Each row says how far their logits
//! are apart, so a comparison that is not fair shows. Weights and caches are made up, which changes no time. A step is
//! all that the host and the device do for it, up to the logits; drawing tokens is not in it.

mod balance;
mod cache_dtype;
mod cascade;
mod floor;
mod model;
mod prefix;
mod rope;
mod row;
mod side;
mod turns;

pub use balance::load_balance;
pub use cache_dtype::cache_dtype;
pub use cascade::parallel_generation;
pub use floor::Floor;
pub use model::TableModel;
pub use prefix::prefix_cache;
pub use rope::fused_rope;
pub use row::{Agreement, Row};
pub use turns::Turns;

/// Tokens of a page.
const PAGE_SIZE: usize = 16;
