//! Appending keys and values to KV pools.

use std::sync::Arc;

use attn_core::ops::append;
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use super::{Append, KvMut, KvRef, TensorRows};
use crate::backend::{Backend, CudaKvTransform, map_backend, on_backend, try_backend};
use crate::expr::TensorContent;
use crate::{Attention, Dtype, Engine, Error, HeadDimVo, Heads, Stream, Variant};

/// The `key_transform` and `value_transform` of a variant, applied when keys and values are appended, for a cache of
/// [`KvStored::Transformed`](crate::KvStored) keys, and then its KV formats
/// ([`Variant::with_kv_formats`](crate::Variant::with_kv_formats)). One serves all layers with the same parameters.
///
/// In an append, a hook may read the coordinates `kv_pos`, `kv_head`, and `kv_token`, which is the row among the new
/// keys. A hook that reads another coordinate is refused by name. In shapes, `qo_tokens` and `kv_tokens` are the number
/// of new keys; a tensor may be larger.
#[derive(Debug)]
pub struct KvTransform {
    backend: Backend<append::Transform, Arc<CudaKvTransform>>,
}

impl KvTransform {
    /// Binds a variant to heads.
    ///
    /// # Errors
    ///
    /// Invalid heads, a parameter that does not fit them, a union, or a hook that reads `kv_len` or `batch`.
    pub fn new(engine: &Engine, variant: &Variant, heads: Heads) -> Result<Self, Error> {
        Self::with_values(engine, variant, heads, HeadDimVo::Same)
    }

    /// Binds a variant for values of another head dimension than keys, which value transforms and KV formats depend on.
    ///
    /// # Errors
    ///
    /// The errors of [`KvTransform::new`].
    pub fn with_values(engine: &Engine, variant: &Variant, heads: Heads, values: HeadDimVo) -> Result<Self, Error> {
        let backend = map_backend!(&engine.backend, {
            Cpu(()) => append::Transform::with_values(variant, heads, values)?,
            Cuda(device) => Arc::new(CudaKvTransform::new(device, variant, heads, values)?),
        });
        Ok(KvTransform { backend })
    }

    /// What appends to an attention's cache apply, by its `head_dim_vo`; `None` where rows are stored as given.
    ///
    /// # Errors
    ///
    /// The errors of [`KvTransform::new`].
    pub fn of_cache(engine: &Engine, attention: &Attention, values: HeadDimVo) -> Result<Option<Self>, Error> {
        let variant = attention.variant().of_appends();
        variant.map(|variant| Self::with_values(engine, &variant, attention.heads(), values)).transpose()
    }

    /// Whether [`KvTransform::set_tensor`] can replace a parameter tensor of this name.
    #[must_use]
    pub fn has_tensor(&self, name: &str) -> bool {
        let variant = on_backend!(&self.backend, {
            Cpu(transform) => transform.variant(),
            Cuda(transform) => transform.transform().variant(),
        });
        variant.tensor_slot(name).is_ok()
    }

    /// Prepares an append from one type to another, so that the first call can be captured: on CUDA it compiles and
    /// loads the kernel.
    ///
    /// # Errors
    ///
    /// Neither a kernel nor a compiler.
    pub fn prepare(&self, from: Dtype, to: Dtype) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(_) => Ok(()),
            Cuda(transform) => Ok(transform.prepare(from, to)?),
        })
    }

    /// Prepares an append that writes queries of a third type too ([`KvTransform::append_with_queries`]).
    ///
    /// # Errors
    ///
    /// Neither a kernel nor a compiler.
    pub fn prepare_with_queries(&self, from: Dtype, to: Dtype, queries: Dtype) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(_) => Ok(()),
            Cuda(transform) => Ok(transform.prepare_with_queries(from, to, queries)?),
        })
    }

    /// Appends new keys and values as [`append_paged`], and in the same launch transforms the queries of the same
    /// tokens by the variant's `query_transform`: a step's rotation and append together.
    ///
    /// `q` has the type of the new rows and goes to `q_out`, of any type, each a tensor of (tokens, qo_heads, head_dim)
    /// ([`KvRef::latent`]), or two ([`KvRef::new`]), the second with elements that are only converted, such as those of
    /// latent attention without a rotation. Queries are multiplied by `1 / scale` of [`Append::q_scale`] before they
    /// are rounded. Without `q` those in `q_out` are transformed in place. A token without a slot has queries as any
    /// other. The hook may read the coordinates `qo_pos`, which is the position of the key, `qo_head`, `kv_head` and
    /// `qo_token`, the row among the new keys.
    ///
    /// # Errors
    ///
    /// The errors of [`append_paged`], queries that do not fit the keys, and a hook that reads another coordinate.
    pub fn append_with_queries(
        &self,
        stream: &Stream,
        q: Option<&KvRef<'_>>,
        q_out: &mut KvMut<'_>,
        kv: &KvRef<'_>,
        pools: &mut KvMut<'_>,
        append: &Append<'_>,
    ) -> Result<(), Error> {
        try_backend!(&stream.backend, {
            Cpu(()) => append::append_with_queries(q, q_out, kv, pools, append, self.cpu()?),
            Cuda(stream) => cuda::ops::append_with_queries(stream, q, q_out, kv, pools, append, self.cuda()?),
        })
    }

    /// Replaces the content of a parameter tensor for later appends: the positions of a step's tokens.
    ///
    /// # Errors
    ///
    /// The errors of [`Attention::set_tensor`](crate::Attention::set_tensor).
    pub fn set_tensor(&self, stream: &Stream, name: &str, content: &TensorContent<'_>) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(transform) => stream.cpu().and_then(|()| Ok(transform.set_content(name, content)?)),
            Cuda(transform) => Ok(transform.set_tensor(stream.cuda()?, name, content)?),
        })
    }

    /// Writes rows of a parameter tensor for later appends.
    ///
    /// # Errors
    ///
    /// The errors of [`Attention::set_tensor_rows`](crate::Attention::set_tensor_rows).
    pub fn set_tensor_rows(&self, stream: &Stream, name: &str, rows: &TensorRows<'_>) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(transform) => stream.cpu().and_then(|()| Ok(transform.set_rows(name, rows)?)),
            Cuda(transform) => Ok(transform.set_tensor_rows(stream.cuda()?, name, rows)?),
        })
    }

    pub(crate) fn cpu(&self) -> Result<&append::Transform, Error> {
        self.backend.cpu("transform")
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(&self) -> Result<&Arc<CudaKvTransform>, Error> {
        self.backend.cuda("transform")
    }
}

/// Appends new keys and values, (tokens, kv_heads, head_dim), to pools of (pages, slots, kv_heads, head_dim).
/// [`Append`] gives the places: slots, or requests and positions through a page table. A token with a place below 0 is
/// padding, for which nothing is written. Of two tokens with the same place, either is stored.
///
/// A row goes through the transform, if given, is multiplied by `1 / scale`, and rounded to the type of the pool,
/// saturating for fp8 ([`Element::from_f32`](crate::Element::from_f32)), or encoded in its KV format. New rows
/// are f16, bf16 or f32, or of the pool's type. A latent cache has keys alone ([`KvRef::latent`]).
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
    try_backend!(&stream.backend, {
        Cpu(()) => append::append(kv, pools, append, transform.map(KvTransform::cpu).transpose()?),
        Cuda(stream) => {
            let transform = transform.map(KvTransform::cuda).transpose()?;
            cuda::ops::append(stream, kv, pools, append, transform)
        },
    })
}
