//! The keys and values of a run, in the layouts that a batch may have: ragged, in pages, fused in one pool, latent.

use std::{fmt, str::FromStr};

use super::{KvScales, Scale, TensorError, TensorRef, sides};

/// Keys and values of all requests: packed tensors of (tokens, kv_heads, head_dim), or pools of (pages, slots,
/// kv_heads, head_dim). The shape always has this logical order; a pool stored as (pages, kv_heads, slots, head_dim)
/// has it with other strides, see [`TensorRef::permuted`].
#[derive(Clone, Copy, Debug)]
pub struct Kv<'a> {
    /// The keys.
    pub k: TensorRef<'a>,
    /// The values.
    pub v: TensorRef<'a>,
    /// Scales of stored elements; 1 unless [`Kv::with_scales`] sets them.
    pub scales: KvScales<'a>,
    /// Side data of stored rows; none unless [`Kv::with_sides`] sets it.
    pub sides: KvSides<'a>,
    /// Scale of queries of e4m3 that are multiplied with the keys; 1 unless [`Kv::with_query_scale`] sets it.
    pub q_scale: Scale<'a>,
}

/// Side data of rows in a [`KvFormat`](crate::lang::KvFormat), such as their scales: a tensor for keys and one for
/// values, where the format has any ([`KvFormat::side_bytes`](crate::lang::KvFormat::side_bytes)).
///
/// Each has the dimensions of its codes in the same order, except for the last, which is bytes of side data. Strides
/// are its own: a tensor for itself, or a view of the end of each page or of each row.
#[derive(Clone, Copy, Debug, Default)]
pub struct KvSides<'a> {
    /// Of keys. Values that are the first elements of keys share it.
    pub k: Option<TensorRef<'a>>,
    /// Of values.
    pub v: Option<TensorRef<'a>>,
}

impl<'a> KvSides<'a> {
    /// Side data of keys and of values.
    #[must_use]
    pub fn new(k: impl Into<Option<TensorRef<'a>>>, v: impl Into<Option<TensorRef<'a>>>) -> Self {
        KvSides { k: k.into(), v: v.into() }
    }

    /// Two pools whose pages have the order `order`, as [`Kv::paged_in`].
    ///
    /// # Errors
    ///
    /// The rank of a pool is not 4.
    pub fn paged_in(k: Option<TensorRef<'a>>, v: Option<TensorRef<'a>>, order: PageOrder) -> Result<Self, TensorError> {
        let logical = |name, pool: Option<TensorRef<'a>>| pool.map(|pool| order.logical(name, pool)).transpose();
        Ok(KvSides { k: logical(sides::NAMES[0], k)?, v: logical(sides::NAMES[1], v)? })
    }

    /// One pool with the side data of the keys and then of the values of each page: (pages, 2, ..), the rest in the
    /// order `order`.
    ///
    /// # Errors
    ///
    /// The rank is not 5, or the second dimension is not 2.
    pub fn fused(pool: TensorRef<'a>, order: PageOrder) -> Result<Self, TensorError> {
        let kv = Kv::paged_fused(pool, order)?;
        Ok(Self::new(kv.k, kv.v))
    }

    /// Of keys (0) or of values.
    #[must_use]
    pub fn part(&self, part: usize) -> Option<TensorRef<'a>> {
        if part == 0 { self.k } else { self.v }
    }
}

/// The order of slots and heads within a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PageOrder {
    /// (slots, kv_heads, head_dim).
    #[default]
    Nhd,
    /// (kv_heads, slots, head_dim).
    Hnd,
}

impl<'a> Kv<'a> {
    /// Packed tensors of (tokens, kv_heads, head_dim).
    #[must_use]
    pub fn ragged(k: TensorRef<'a>, v: TensorRef<'a>) -> Self {
        Kv { k, v, scales: KvScales::default(), sides: KvSides::default(), q_scale: Scale::default() }
    }

    /// Pools of (pages, slots, kv_heads, head_dim).
    #[must_use]
    pub fn paged(k_pool: TensorRef<'a>, v_pool: TensorRef<'a>) -> Self {
        Self::ragged(k_pool, v_pool)
    }

    /// One tensor or pool of keys whose first elements are the values, for
    /// [`HeadDimVo::SharedWithKeys`](crate::spec::HeadDimVo::SharedWithKeys). The compressed cache of multi-head latent
    /// attention (DeepSeek-V2) is one, with a single KV head.
    #[must_use]
    pub fn latent(keys: TensorRef<'a>) -> Self {
        Self::ragged(keys, keys)
    }

    /// A latent cache, like [`Kv::latent`], in a pool whose pages have the order `order`.
    ///
    /// # Errors
    ///
    /// The rank of a pool is not 4.
    pub fn latent_pages(pool: TensorRef<'a>, order: PageOrder) -> Result<Self, TensorError> {
        Ok(Self::latent(order.logical("k pool", pool)?))
    }

    /// Two pools whose pages have the order `order`: (pages, slots, kv_heads, head_dim) or (pages, kv_heads, slots,
    /// head_dim).
    ///
    /// # Errors
    ///
    /// The rank of a pool is not 4.
    pub fn paged_in(k_pool: TensorRef<'a>, v_pool: TensorRef<'a>, order: PageOrder) -> Result<Self, TensorError> {
        Ok(Self::paged(order.logical("k pool", k_pool)?, order.logical("v pool", v_pool)?))
    }

    /// One pool with the keys and then the values of each page: (pages, 2, ..), the rest in the order `order`.
    ///
    /// # Errors
    ///
    /// The rank is not 5, or the second dimension is not 2.
    pub fn paged_fused(pool: TensorRef<'a>, order: PageOrder) -> Result<Self, TensorError> {
        let shape = pool.shape();
        if shape.len() != 5 {
            return Err(TensorError::Rank { tensor: "fused pool", rank: shape.len(), want: "5" });
        }
        if shape[1] != 2 {
            let (tensor, dim) = ("fused pool", "parts in dimension 1 (keys, values)");
            return Err(TensorError::Shape { tensor, dim, got: shape[1], want: 2, exact: true });
        }
        Self::paged_in(pool.select(1, 0)?, pool.select(1, 1)?, order)
    }

    /// The same tensors, of which each stored element is multiplied by a scale.
    ///
    /// ```
    /// # use attn_core::{lang::F8E4M3, tensor::{Element, Kv, KvScales, Scale, TensorRef}};
    /// let stored: Vec<F8E4M3> = [0.5f32, -448.0].map(Element::from_f32).to_vec();
    /// let kv = TensorRef::host(&stored, &[1, 1, 2])?;
    /// let heads = [0.02f32];
    /// let scales = KvScales { k: Scale::of(0.25), v: Scale::per_head(TensorRef::host(&heads, &[1])?) };
    /// let kv = Kv::ragged(kv, kv).with_scales(scales); // the key is (0.125, -112), the value (0.01, -8.96)
    /// # Ok::<(), attn_core::tensor::TensorError>(())
    /// ```
    #[must_use]
    pub fn with_scales(self, scales: KvScales<'a>) -> Self {
        Kv { scales, ..self }
    }

    /// The same tensors, with a scale of the queries of a run, which are e4m3 then
    /// ([`Dtypes::with_queries`](crate::dtype::Dtypes::with_queries)): an element `x` stands for `x * scale`, a number,
    /// or f32 of one element, which a kernel reads in device memory. `query_transform` sees the product.
    #[must_use]
    pub fn with_query_scale(self, q_scale: Scale<'a>) -> Self {
        Kv { q_scale, ..self }
    }

    /// The same rows of codes with their side data, for a [`KvFormat`](crate::lang::KvFormat) that has any. `k` and `v`
    /// are tensors of bytes then, whose last dimension is bytes of codes. In [`Kv::latent`] the side data of keys
    /// serves the values too.
    #[must_use]
    pub fn with_sides(self, sides: KvSides<'a>) -> Self {
        Kv { sides, ..self }
    }
}

impl PageOrder {
    pub(crate) fn logical<'a>(self, name: &'static str, pool: TensorRef<'a>) -> Result<TensorRef<'a>, TensorError> {
        if pool.shape().len() != 4 {
            return Err(TensorError::Rank { tensor: name, rank: pool.shape().len(), want: "4" });
        }
        match self {
            PageOrder::Nhd => Ok(pool),
            PageOrder::Hnd => pool.permuted(&[0, 2, 1, 3]),
        }
    }
}

impl fmt::Display for PageOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PageOrder::Nhd => "NHD",
            PageOrder::Hnd => "HND",
        })
    }
}

/// A text that is not a [`PageOrder`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown page order `{0}`; there are: NHD, HND")]
pub struct UnknownPageOrder(pub String);

impl FromStr for PageOrder {
    type Err = UnknownPageOrder;
    fn from_str(s: &str) -> Result<Self, UnknownPageOrder> {
        match s {
            "NHD" | "nhd" => Ok(PageOrder::Nhd),
            "HND" | "hnd" => Ok(PageOrder::Hnd),
            _ => Err(UnknownPageOrder(s.to_owned())),
        }
    }
}
