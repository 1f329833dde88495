//! Appending keys and values to KV pools, and gathering them.

use attn_core::ops::{append, gather as gathering};
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use super::{Append, Gather, KvMut, KvRef, on_stream};
use crate::{Dtype, Engine, Error, Heads, Stream, Variant, engine::Backend};

/// The `key_transform` and `value_transform` of a variant, applied when keys and values are appended, for a cache of
/// [`KvStored::Transformed`](crate::KvStored) keys. One serves all layers with the same parameters.
///
/// In an append, a hook may read the coordinates `kv_pos` and `kv_head` of a key. A hook that reads another coordinate
/// is refused by name.
#[derive(Debug)]
pub struct KvTransform {
    backend: KvTransformBackend,
}

#[derive(Debug)]
enum KvTransformBackend {
    Cpu(append::Transform),
    #[cfg(feature = "cuda")]
    Cuda(cuda::ops::KvTransform),
}

impl KvTransform {
    /// Binds a variant to heads.
    ///
    /// # Errors
    ///
    /// Invalid heads, a parameter that does not fit them, a union, or a hook that reads `kv_len`, `kv_token` or
    /// `batch`.
    pub fn new(engine: &Engine, variant: &Variant, heads: Heads) -> Result<Self, Error> {
        let backend = match &engine.backend {
            Backend::Cpu => KvTransformBackend::Cpu(append::Transform::new(variant, heads)?),
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => KvTransformBackend::Cuda(cuda::ops::KvTransform::new(device, variant, heads)?),
        };
        Ok(KvTransform { backend })
    }

    /// Prepares an append from one type to another, so that the first call can be captured: on CUDA it compiles and
    /// loads the kernel.
    ///
    /// # Errors
    ///
    /// Neither a kernel nor a compiler.
    pub fn prepare(&self, from: Dtype, to: Dtype) -> Result<(), Error> {
        match &self.backend {
            KvTransformBackend::Cpu(_) => {
                let _ = (from, to);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            KvTransformBackend::Cuda(transform) => Ok(transform.prepare(from, to)?),
        }
    }

    pub(crate) fn cpu(&self) -> Result<&append::Transform, Error> {
        match &self.backend {
            KvTransformBackend::Cpu(transform) => Ok(transform),
            #[cfg(feature = "cuda")]
            KvTransformBackend::Cuda(_) => {
                Err(Error::Backend { what: "transform", got: "a CUDA device", want: "the CPU" })
            }
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&self) -> Result<&cuda::ops::KvTransform, Error> {
        match &self.backend {
            KvTransformBackend::Cpu(_) => {
                Err(Error::Backend { what: "transform", got: "the CPU", want: "a CUDA device" })
            }
            KvTransformBackend::Cuda(transform) => Ok(transform),
        }
    }
}

/// Appends new keys and values, (tokens, kv_heads, head_dim), to pools of (pages, slots, kv_heads, head_dim).
/// [`Append`] gives the places: slots, or requests and positions through a page table. A token with a place below 0 is
/// padding, for which nothing is written. Of two tokens with the same place, either is stored.
///
/// A row goes through the transform, if given, is multiplied by `1 / scale`, and rounded to the type of the pool,
/// saturating for fp8 ([`Element::from_f32`](crate::tensor::Element::from_f32)). New rows are f16, bf16 or f32, or of
/// the pool's type. A latent cache has keys alone ([`KvRef::latent`]).
///
/// # Errors
///
/// Tensors or arrays of contradicting shapes, or in other memory than the stream; an invalid scale; on the CPU a place
/// outside of the pool; on CUDA no kernel.
pub fn append_paged(
    stream: &Stream,
    kv: &KvRef<'_>,
    pools: &mut KvMut<'_>,
    append: &Append<'_>,
    transform: Option<&KvTransform>,
) -> Result<(), Error> {
    #[cfg(feature = "cuda")]
    if let Some(stream) = stream.as_cuda() {
        let transform = transform.map(KvTransform::cuda).transpose()?;
        return Ok(cuda::ops::append(stream, kv, pools, append, transform)?);
    }
    stream.check_cpu()?;
    let transform = transform.map(KvTransform::cpu).transpose()?;
    Ok(append::append(kv, pools, append, transform)?)
}

/// Gathers the pages of requests into packed tensors of (tokens, kv_heads, head_dim). Each element is multiplied by its
/// scale and rounded to f16, bf16 or f32, or copied as stored to a tensor of the pool's type.
///
/// # Errors
///
/// As [`append_paged`].
pub fn gather(stream: &Stream, pools: &KvRef<'_>, kv: &mut KvMut<'_>, gather: &Gather<'_>) -> Result<(), Error> {
    on_stream!(
        stream,
        cpu: gathering::gather(pools, kv, gather),
        cuda: |stream| cuda::ops::gather(stream, pools, kv, gather)
    )
}
