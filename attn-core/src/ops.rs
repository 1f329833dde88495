//! Ops that an inference engine needs around attention: merge states; append, copy, gather and convert keys and values;
//! pack masks.
//!
//! This module defines each op, its checks, and its implementation on the CPU. The CUDA backend takes the same
//! descriptors.
//!
//! | op | what it does |
//! |---|---|
//! | [`merge`] | merges partial states (O, LSE) over disjoint keys |
//! | [`lse`] | log-sum-exp in natural log, and in base 2 |
//! | [`append`] | new keys and values into pools: by positions or slots, transformed, quantised |
//! | [`gather`] | pages of requests into packed tensors |
//! | [`copy`] | pages to pages, within a pool or between two |
//! | [`x_packed`] | pools with keys as (blocks, heads, dim / x, slots, x), to and from pools in pages |
//! | [`tensor_rows`] | rows of a variant's parameter tensor, in place |
//! | [`bits`] | masks of bools into bits |
//!
//! All arguments in host memory are checked before anything is written. Arrays in device memory (slots, pages,
//! positions) are checked by the kernel: it skips an entry out of bounds, and counts it if the caller passes a status
//! word.

pub mod append;
pub mod array;
pub mod bits;
pub(crate) mod check;
pub mod copy;
pub(crate) mod elements;
mod error;
pub mod gather;
mod kv;
pub mod lse;
pub mod merge;
#[cfg(test)]
mod packed_tests;
pub(crate) mod slot_mapping;
pub mod tensor_rows;
pub mod x_packed;

pub use append::Append;
pub use array::{Array, ArrayMut, Number};
pub use bits::BitOrder;
pub use error::OpError;
pub use gather::Gather;
pub use kv::{KvMut, KvRef, KvSidesMut};
pub use merge::{StateMut, StateRef};
pub use slot_mapping::{PageTableRows, SlotMapping, slots_of_new_keys};
pub use tensor_rows::TensorRows;
