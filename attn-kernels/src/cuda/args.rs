//! A variant's parameters on the device: the bytes of `struct Variant`, and the tensors that it points to.

use std::convert::Infallible;

use attn_core::expr::Variant;

use super::{CudaError, Device, DeviceBuffer};
use crate::splice::variant_args;

/// The second argument of every kernel, and what it points to.
#[derive(Debug)]
pub(super) struct Args {
    bytes: Vec<u8>,
    tensors: Vec<Tensor>,
}

#[derive(Debug)]
struct Tensor {
    words: Vec<u32>,
    buffer: DeviceBuffer,
}

impl Args {
    /// Uploads the tensors of a bound variant. Returns when they have arrived.
    pub(super) fn upload(device: &Device, variant: &Variant) -> Result<Self, CudaError> {
        let mut tensors: Vec<Tensor> = Vec::new();
        let bytes = variant_args(variant, |words| {
            let buffer = DeviceBuffer::upload(device, bytemuck::cast_slice(words))?;
            let address = buffer.ptr();
            tensors.push(Tensor { words: words.to_vec(), buffer });
            Ok::<u64, CudaError>(address)
        })?;
        Ok(Args { bytes, tensors })
    }

    /// Whether the variant's parameters are these.
    pub(super) fn are_of(&self, variant: &Variant) -> bool {
        let mut known = self.tensors.iter();
        let mut same = true;
        let bytes = variant_args(variant, |words| {
            let found = known.next().filter(|tensor| tensor.words == words);
            same &= found.is_some();
            Ok::<u64, Infallible>(found.map_or(0, |tensor| tensor.buffer.ptr()))
        });
        same && bytes.is_ok_and(|bytes| bytes == self.bytes)
    }

    /// At least `sizeof(Variant)` bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
