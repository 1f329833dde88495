//! Tensor descriptors: memory, dtype, shape and strides of tensors that the caller owns.
//!
//! Host memory is a borrowed slice; its length is checked when the descriptor is made. A device pointer is never
//! dereferenced here. The innermost dimension of every attention tensor is contiguous, strides are not negative, and
//! extent arithmetic is 64-bit and checked.

mod check;
mod descriptor;
mod element;
mod error;
mod kv;
pub(crate) mod memory;
mod out;
mod overlap;
mod raw;
mod scale;
mod shape;
pub(crate) mod sides;

pub use check::{Tokens, check_inputs, check_run};
pub use descriptor::{TensorMut, TensorRef};
pub use element::Element;
pub use error::TensorError;
pub use kv::{Kv, KvSides, PageOrder};
pub use memory::DeviceMemory;
pub use out::Out;
pub use overlap::Reach;
pub use scale::{KvScales, Scale};
pub use shape::MAX_RANK;

#[cfg(test)]
mod tests;
