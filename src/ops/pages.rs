//! Ops on whole pages: copy, swap, convert.

use attn_core::ops::{copy, x_packed};
#[cfg(feature = "cuda")]
use attn_kernels::cuda::{self, ops::Speed};

use super::{Array, ArrayMut, KvMut, KvRef};
use crate::{Error, Stream, TensorMut, TensorRef, backend::try_backend};

/// Copies pages within pools of (pages, slots, kv_heads, head_dim): `pairs` are (from, to). No page may be written
/// twice, or both written and read.
///
/// The list may be in host memory; it is then checked and passed with the launch. On the device, pairs with a page
/// outside of the pool are skipped and counted in `status` (one word of device memory).
///
/// # Errors
///
/// Invalid pools, or pools in other memory than the stream; an empty `status`; a page of a host list that is not in the
/// pool; on CUDA no kernel.
pub fn copy_pages(
    stream: &Stream,
    pools: &mut KvMut<'_>,
    pairs: &Array<'_, [i32; 2]>,
    status: Option<&ArrayMut<'_, u32>>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => copy::check_status(status).and_then(|()| copy::within(pools, pairs)),
        Cuda(stream) => cuda::ops::copy_pages(stream, pools, pairs, status),
    })
}

/// Copies pages from one pool to another with the same page size, heads and type, in any strides.
///
/// # Errors
///
/// The errors of [`copy_pages`].
pub fn copy_pages_between(
    stream: &Stream,
    from: &KvRef<'_>,
    to: &mut KvMut<'_>,
    pairs: &Array<'_, [i32; 2]>,
    status: Option<&ArrayMut<'_, u32>>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => copy::check_status(status).and_then(|()| copy::between(from, to, pairs)),
        Cuda(stream) => cuda::ops::copy_pages_between(stream, from, to, pairs, status, Speed::Device),
    })
}

/// Copies pages of a pool on the device to a pool in pinned host memory ([`HostBuffer`](super::HostBuffer)), in the
/// order of the stream, on as many SMs as saturate the bus. `pairs` are (device page, host page). The host may read the
/// pages once the stream has reached the copy.
///
/// # Errors
///
/// The errors of [`copy_pages`].
pub fn swap_out(
    stream: &Stream,
    from: &KvRef<'_>,
    host: &mut KvMut<'_>,
    pairs: &Array<'_, [i32; 2]>,
) -> Result<(), Error> {
    swap(stream, from, host, pairs)
}

/// Copies pages of a pool in pinned host memory back to a pool on the device. `pairs` are (host page, device page).
///
/// # Errors
///
/// The errors of [`copy_pages`].
pub fn swap_in(
    stream: &Stream,
    host: &KvRef<'_>,
    to: &mut KvMut<'_>,
    pairs: &Array<'_, [i32; 2]>,
) -> Result<(), Error> {
    swap(stream, host, to, pairs)
}

fn swap(stream: &Stream, from: &KvRef<'_>, to: &mut KvMut<'_>, pairs: &Array<'_, [i32; 2]>) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => copy::between(from, to, pairs),
        Cuda(stream) => cuda::ops::copy_pages_between(stream, from, to, pairs, None, Speed::Host),
    })
}

/// Converts a cache in the layout of vLLM's first kernels, keys of (blocks, kv_heads, head_dim / x, slots, x) and
/// values of (blocks, kv_heads, head_dim, slots), to pools of (pages, slots, kv_heads, head_dim) in any strides. Block
/// `i` becomes page `i`.
///
/// # Errors
///
/// Tensors of contradicting shapes, or in other memory than the stream; on CUDA no kernel.
pub fn x_packed_to_pages(
    stream: &Stream,
    k: &TensorRef<'_>,
    v: &TensorRef<'_>,
    pools: &mut KvMut<'_>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => x_packed::to_pages(k, v, pools),
        Cuda(stream) => cuda::ops::to_pages(stream, k, v, pools),
    })
}

/// The inverse of [`x_packed_to_pages`].
///
/// # Errors
///
/// The errors of [`x_packed_to_pages`].
pub fn pages_to_x_packed(stream: &Stream, pools: &KvRef<'_>, k: TensorMut<'_>, v: TensorMut<'_>) -> Result<(), Error> {
    let (mut k, mut v) = (k, v);
    try_backend!(&stream.backend, {
        Cpu(()) => x_packed::from_pages(pools, &mut k, &mut v),
        Cuda(stream) => cuda::ops::from_pages(stream, pools, &k, &v),
    })
}
