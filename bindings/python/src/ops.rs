//! The ops around attention, on the caller's tensors.

pub(crate) mod bits;
pub(crate) mod gather;
mod kv;
pub(crate) mod merge;
pub(crate) mod pages;
