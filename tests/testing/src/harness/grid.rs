//! The grids of cases that kernels are checked on: a covering design rather than a full product.
//!
//! Every variant runs in every kernel, in six *cells* each. A cell is a dtype, a head dim and a layout; the six cover
//! all pairs of their values. Group size, page size, page order and lengths are chosen so that as many pairs of values
//! as possible meet. Two cases share a cell, so there are half as many cubins as cases. fp8 caches, scales, large
//! logits and a bias for each pair of query and key follow at the end.

mod bit_exact;
mod cells;
mod counting;
mod covering;
mod dims;
mod formats;
mod large_logits;
mod over;
mod pairs;
mod partial;
mod scaled;
mod serving;
mod small;
mod tables;
#[cfg(test)]
mod tests;

pub use bit_exact::bit_exact;
pub use counting::counting;
pub use covering::check;
pub use dims::dims;
pub use formats::formats;
pub use over::over;
pub use partial::partial;
pub use serving::{latent, serving};
pub use small::small;
