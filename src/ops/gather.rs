//! Gathering keys and values from KV pools.

use attn_core::ops::gather::gather_with as gather_on_cpu;
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use super::{Gather, KvMut, KvRef, KvTransform};
use crate::{Error, Stream, backend::try_backend};

/// Gathers the pages of requests into packed tensors of (tokens, kv_heads, head_dim). Each element is multiplied by its
/// scale and rounded to f16, bf16 or f32, or copied as stored to a tensor of the pool's type.
///
/// # Errors
///
/// The errors of [`append_paged`](super::append_paged).
pub fn gather(stream: &Stream, pools: &KvRef<'_>, kv: &mut KvMut<'_>, rows: &Gather<'_>) -> Result<(), Error> {
    gather_with(stream, pools, kv, rows, None)
}

/// Gathers rows in the KV formats of a transform, whose hooks do not run.
///
/// # Errors
///
/// The errors of [`append_paged`](super::append_paged).
pub fn gather_with(
    stream: &Stream,
    pools: &KvRef<'_>,
    kv: &mut KvMut<'_>,
    rows: &Gather<'_>,
    transform: Option<&KvTransform>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => gather_on_cpu(pools, kv, rows, transform.map(KvTransform::cpu).transpose()?),
        Cuda(stream) => {
            let transform = transform.map(KvTransform::cuda).transpose()?;
            cuda::ops::gather(stream, pools, kv, rows, transform)
        },
    })
}
