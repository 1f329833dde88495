//! Rows into pools and out of them.

use attn_core::ops::{append, gather as gathering};
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use super::{Append, Gather, KvMut, KvRef, on_stream};
use crate::{Dtype, Engine, Error, Heads, Stream, Variant, engine::Backend};

/// The transforms of keys and values that a cache is said to hold ([`KvStored::Transformed`](crate::KvStored)): `key_transform` and `value_transform` of a variant,
/// with what they need on the engine. One serves every layer whose parameters are the same.
///
/// Of the index words of a key, `kv_pos` and `kv_head` are known where it is appended; a hook that reads another is refused by name.
#[derive(Debug)]
pub struct KvTransform {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Cpu(append::Transform),
    #[cfg(feature = "cuda")]
    Cuda(cuda::ops::KvTransform),
}

impl KvTransform {
    /// Binds a variant to heads.
    ///
    /// # Errors
    ///
    /// Heads that are none, a parameter that does not fit them; a union; a hook that reads `kv_len`, `kv_token` or `batch`.
    pub fn new(engine: &Engine, variant: &Variant, heads: Heads) -> Result<Self, Error> {
        let inner = match &engine.backend {
            Backend::Cpu => Inner::Cpu(append::Transform::new(variant, heads)?),
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => Inner::Cuda(cuda::ops::KvTransform::new(device, variant, heads)?),
        };
        Ok(KvTransform { inner })
    }

    /// Makes an append from one type to another ready, so that the first call may be captured: on CUDA a kernel is compiled and loaded.
    ///
    /// # Errors
    ///
    /// No kernel and no compiler.
    pub fn prepare(&self, from: Dtype, to: Dtype) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(_) => {
                let _ = (from, to);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(transform) => Ok(transform.prepare(from, to)?),
        }
    }

    fn cpu(&self) -> Result<&append::Transform, Error> {
        match &self.inner {
            Inner::Cpu(transform) => Ok(transform),
            #[cfg(feature = "cuda")]
            Inner::Cuda(_) => Err(Error::Backend { what: "transform", got: "a CUDA device", want: "the CPU" }),
        }
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self) -> Result<&cuda::ops::KvTransform, Error> {
        match &self.inner {
            Inner::Cpu(_) => Err(Error::Backend { what: "transform", got: "the CPU", want: "a CUDA device" }),
            Inner::Cuda(transform) => Ok(transform),
        }
    }
}

/// Writes new keys and values, (tokens, kv_heads, head_dim), into pools of (pages, slots, kv_heads, head_dim), at the places that [`Append`] says: by slots, or by
/// requests and positions through a page table. A token whose place is below 0 is padding: nothing is written for it. Of two tokens with one place, either stays.
///
/// A row goes through the transform if there is one, is multiplied by `1 / scale`, and rounded to the type of the pool, saturating in types of 8 bits
/// ([`Element::from_f32`](crate::tensor::Element::from_f32)). New rows are f16, bf16 or f32, or of the pool's own type. For a latent cache there are keys alone ([`KvRef::latent`]).
///
/// # Errors
///
/// Tensors or arrays that do not go together, or in other memory than the stream; a scale that is none; on the CPU a place outside of the pool; on CUDA no kernel.
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

/// Reads the pages of requests into packed tensors of (tokens, kv_heads, head_dim), each element times its scale, rounded to f16, bf16 or f32; or as it is stored, to a
/// tensor of its own type.
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
