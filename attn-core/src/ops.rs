//! What an engine needs around attention: states merged, keys and values appended, copied, gathered and converted, masks packed.
//!
//! Here is what each op means, what it refuses, and how it runs on the CPU. The CUDA backend takes the same descriptors.
//!
//! | op | what it does |
//! |---|---|
//! | [`merge`] | states of attention over disjoint keys become one: (o, lse) with (o, lse) |
//! | [`lse`] | log-sum-exp in natural log, and in base 2 |
//! | [`append`] | new keys and values into pools: by positions or slots, transformed, quantised |
//! | [`gather`] | pages of requests into packed tensors |
//! | [`copy`] | pages to pages, within a pool or between two |
//! | [`x_packed`] | pools whose keys lie as (blocks, heads, dim / x, slots, x), to and from pools in pages |
//! | [`bits`] | masks of bools into bits |
//!
//! All that can be seen from the host is checked before anything is written. On the CPU that is everything. What a kernel reads from memory of the
//! device (slots, pages, positions) it checks itself: an entry outside is left out, and counted where the caller asks for it.

pub mod append;
pub mod array;
pub mod bits;
mod check;
pub mod copy;
mod elements;
mod error;
pub mod gather;
mod kv;
pub mod lse;
pub mod merge;
mod places;
pub mod x_packed;

pub use append::Append;
pub use array::{Array, ArrayMut, Number};
pub use bits::BitOrder;
pub use error::OpError;
pub use gather::Gather;
pub use kv::{KvMut, KvRef};
pub use merge::{State, StateMut};
pub use places::{PageRows, Places, slots_of_new_keys};
