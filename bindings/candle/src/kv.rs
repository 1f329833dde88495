//! Keys and values in tensors.

use attn::PageOrder;
use candle_core::Tensor;

/// Keys and values: rows of (tokens, KV heads, head dim), or pools of pages. Any strides are allowed, as long as the
/// elements of a row are adjacent. A layer of a pool for all layers is `pool.get(layer)?`, which copies nothing.
#[derive(Clone, Copy, Debug)]
pub struct Kv<'a> {
    pub(crate) tensors: Tensors<'a>,
    pub(crate) order: PageOrder,
    pub(crate) scales: [f32; 2],
}

/// The tensors of keys and values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tensors<'a> {
    /// Keys, and values.
    Separate(&'a Tensor, &'a Tensor),
    /// A pool with the keys and then the values of each page.
    Fused(&'a Tensor),
    /// Keys whose first elements are the values.
    Latent(&'a Tensor),
}

impl<'a> Kv<'a> {
    /// Rows of (tokens, KV heads, head dim), request by request.
    #[must_use]
    pub fn ragged(k: &'a Tensor, v: &'a Tensor) -> Self {
        Kv { tensors: Tensors::Separate(k, v), order: PageOrder::Nhd, scales: [1.0; 2] }
    }

    /// Two pools of (pages, slots, KV heads, head dim).
    #[must_use]
    pub fn paged(k_pool: &'a Tensor, v_pool: &'a Tensor) -> Self {
        Self::ragged(k_pool, v_pool)
    }

    /// Two pools whose pages have the order `order`.
    #[must_use]
    pub fn paged_in(k_pool: &'a Tensor, v_pool: &'a Tensor, order: PageOrder) -> Self {
        Kv { order, ..Self::ragged(k_pool, v_pool) }
    }

    /// One pool with the keys and then the values of each page: (pages, 2, ..), the rest in the order `order`.
    #[must_use]
    pub fn fused(pool: &'a Tensor, order: PageOrder) -> Self {
        Kv { tensors: Tensors::Fused(pool), order, scales: [1.0; 2] }
    }

    /// One tensor or pool of keys whose first elements are the values, for
    /// [`HeadDimVo::SharedWithKeys`](attn::HeadDimVo::SharedWithKeys): the cache of multi-head latent attention.
    #[must_use]
    pub fn latent(keys: &'a Tensor) -> Self {
        Kv { tensors: Tensors::Latent(keys), order: PageOrder::Nhd, scales: [1.0; 2] }
    }

    /// The same tensors, of which a stored key `x` stands for `x * k`, and a value for `x * v`.
    #[must_use]
    pub fn with_scales(self, k: f32, v: f32) -> Self {
        Kv { scales: [k, v], ..self }
    }

    /// The first tensor.
    pub(crate) fn first(&self) -> &'a Tensor {
        match self.tensors {
            Tensors::Separate(k, _) | Tensors::Fused(k) | Tensors::Latent(k) => k,
        }
    }

    /// The second tensor, if there is one.
    pub(crate) fn second(&self) -> Option<&'a Tensor> {
        match self.tensors {
            Tensors::Separate(_, v) => Some(v),
            Tensors::Fused(_) | Tensors::Latent(_) => None,
        }
    }
}
