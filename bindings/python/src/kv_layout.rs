//! How keys and values lie in the tensors of a call.

use attn::{Kv, KvScales, KvSides, PageOrder, TensorRef};

use crate::{error::Failure, tensor::View};

/// How keys and values lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvLayout {
    /// (tokens, KV heads, head dim), or pages of (slots, KV heads, head dim).
    Nhd,
    /// Pages of (KV heads, slots, head dim).
    Hnd,
    /// One pool of pages, each of which has keys and then values.
    Fused(PageOrder),
    /// One tensor, whose first elements are the values.
    Latent,
}

impl KvLayout {
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        Ok(match text {
            "NHD" => KvLayout::Nhd,
            "HND" => KvLayout::Hnd,
            "fused NHD" => KvLayout::Fused(PageOrder::Nhd),
            "fused HND" => KvLayout::Fused(PageOrder::Hnd),
            "latent" => KvLayout::Latent,
            _ => {
                let known = "`NHD`, `HND`, `fused NHD`, `fused HND`, `latent`";
                return Err(Failure::argument(format!("kv_layout is `{text}`; there are {known}")));
            }
        })
    }

    /// A pool, or its side data. Without a dimension of slots each slot is a page: (slots, KV heads, head dim).
    pub(crate) fn pool(self, view: View) -> View {
        // the dimensions of such a pool, and those after that of slots
        let (rank, after) = match self {
            KvLayout::Nhd | KvLayout::Latent => (3, 2),
            KvLayout::Hnd => (3, 1),
            KvLayout::Fused(PageOrder::Nhd) => (4, 2),
            KvLayout::Fused(PageOrder::Hnd) => (4, 1),
        };
        let dims = (view.dims.shape().len() == rank).then(|| view.dims.with_one_at(rank - after)).flatten();
        View { dims: dims.unwrap_or(view.dims), ..view }
    }

    /// Whether values have a tensor of their own.
    pub(crate) fn has_values(self) -> bool {
        matches!(self, KvLayout::Nhd | KvLayout::Hnd)
    }

    /// The side data of keys and of values, which a fused pool has in one.
    pub(crate) fn sides<'a>(self, k: Option<TensorRef<'a>>, v: Option<TensorRef<'a>>) -> Result<KvSides<'a>, Failure> {
        Ok(match (self, k) {
            (KvLayout::Hnd, k) => KvSides::paged_in(k, v, PageOrder::Hnd)?,
            (KvLayout::Fused(order), Some(pool)) => KvSides::fused(pool, order)?,
            (_, k) => KvSides::new(k, v),
        })
    }

    pub(crate) fn kv<'a>(
        self,
        k: TensorRef<'a>,
        v: Option<TensorRef<'a>>,
        scales: KvScales<'a>,
    ) -> Result<Kv<'a>, Failure> {
        let kv = match (self, v) {
            (KvLayout::Nhd, Some(v)) => Kv::ragged(k, v),
            (KvLayout::Hnd, Some(v)) => Kv::paged_in(k, v, PageOrder::Hnd)?,
            (KvLayout::Fused(order), None) => Kv::paged_fused(k, order)?,
            (KvLayout::Latent, None) => Kv::latent(k),
            (_, None) => return Err(Failure::tensor("v is None; in this layout values have a tensor of their own")),
            (_, Some(_)) => return Err(Failure::tensor("v is given; in this layout values are in k, and v is None")),
        };
        Ok(kv.with_scales(scales))
    }
}
