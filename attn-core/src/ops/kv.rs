//! Keys and values that ops read and write: contiguous rows, or pools of pages.

use super::OpError;
use crate::tensor::{Kv, PageOrder, TensorError, TensorMut, TensorRef};

/// Keys and values that an op reads: packed tensors of (tokens, kv_heads, head_dim), or pools of (pages, slots,
/// kv_heads, head_dim), in any strides. A latent cache (MLA) has one tensor, which is given as keys alone. Keys and
/// values may differ in head_dim.
#[derive(Clone, Copy, Debug)]
pub struct KvRef<'a> {
    k: TensorRef<'a>,
    v: Option<TensorRef<'a>>,
}

/// Keys and values that an op writes, as [`KvRef`]; no two elements may share memory.
#[derive(Debug)]
pub struct KvMut<'a> {
    tensors: KvTensors<'a>,
}

#[derive(Debug)]
enum KvTensors<'a> {
    Separate {
        k: TensorMut<'a>,
        v: Option<TensorMut<'a>>,
    },
    /// (pages, 2, slots, kv_heads, head_dim)
    Fused(TensorMut<'a>),
}

impl<'a> KvRef<'a> {
    /// Keys and values.
    #[must_use]
    pub fn new(k: TensorRef<'a>, v: TensorRef<'a>) -> Self {
        KvRef { k, v: Some(v) }
    }

    /// One tensor: a latent cache, or keys alone.
    #[must_use]
    pub fn latent(c: TensorRef<'a>) -> Self {
        KvRef { k: c, v: None }
    }

    /// Two pools with pages in `order`.
    ///
    /// # Errors
    ///
    /// A pool that has not rank 4.
    pub fn paged_in(k_pool: TensorRef<'a>, v_pool: TensorRef<'a>, order: PageOrder) -> Result<Self, OpError> {
        Ok(Self::from(Kv::paged_in(k_pool, v_pool, order)?))
    }

    /// One pool that holds the keys and the values of each page: (pages, 2, ..) with the rest in `order`.
    ///
    /// # Errors
    ///
    /// A pool that has not rank 5, or not 2 in its second dimension.
    pub fn fused(pool: TensorRef<'a>, order: PageOrder) -> Result<Self, OpError> {
        Ok(Self::from(Kv::paged_fused(pool, order)?))
    }

    /// Whether there are values.
    #[must_use]
    pub fn has_values(&self) -> bool {
        self.v.is_some()
    }

    /// The keys, and then the values if there are any.
    pub fn parts(&self) -> impl Iterator<Item = TensorRef<'a>> + use<'a> {
        std::iter::once(self.k).chain(self.v)
    }
}

/// Drops the scales: ops take scales separately.
impl<'a> From<Kv<'a>> for KvRef<'a> {
    fn from(kv: Kv<'a>) -> Self {
        Self::new(kv.k, kv.v)
    }
}

impl<'a> KvMut<'a> {
    /// Keys and values.
    #[must_use]
    pub fn new(k: TensorMut<'a>, v: TensorMut<'a>) -> Self {
        KvMut { tensors: KvTensors::Separate { k, v: Some(v) } }
    }

    /// One tensor: a latent cache, or keys alone.
    #[must_use]
    pub fn latent(c: TensorMut<'a>) -> Self {
        KvMut { tensors: KvTensors::Separate { k: c, v: None } }
    }

    /// Two pools with pages in `order`.
    ///
    /// # Errors
    ///
    /// A pool that has not rank 4.
    pub fn paged_in(k_pool: TensorMut<'a>, v_pool: TensorMut<'a>, order: PageOrder) -> Result<Self, OpError> {
        let logical = |name, pool: TensorMut<'a>| -> Result<TensorMut<'a>, OpError> {
            order.logical(name, pool.as_ref())?; // checks the rank
            Ok(if order == PageOrder::Hnd { pool.permuted(&[0, 2, 1, 3])? } else { pool })
        };
        Ok(Self::new(logical("k pool", k_pool)?, logical("v pool", v_pool)?))
    }

    /// One pool that holds the keys and the values of each page: (pages, 2, ..) with the rest in `order`.
    ///
    /// # Errors
    ///
    /// A pool that has not rank 5, or not 2 in its second dimension.
    pub fn fused(pool: TensorMut<'a>, order: PageOrder) -> Result<Self, OpError> {
        Kv::paged_fused(pool.as_ref(), order)?; // checks the shape
        let pool = if order == PageOrder::Hnd { pool.permuted(&[0, 1, 3, 2, 4])? } else { pool };
        Ok(KvMut { tensors: KvTensors::Fused(pool) })
    }

    /// Whether there are values.
    #[must_use]
    pub fn has_values(&self) -> bool {
        !matches!(self.tensors, KvTensors::Separate { v: None, .. })
    }

    /// A view for reading.
    #[must_use]
    pub fn as_ref(&self) -> KvRef<'_> {
        match &self.tensors {
            KvTensors::Separate { k, v } => KvRef { k: k.as_ref(), v: v.as_ref().map(TensorMut::as_ref) },
            KvTensors::Fused(pool) => {
                // the shape was checked when this was made
                let part = |index| pool.as_ref().select(1, index).unwrap_or(pool.as_ref());
                KvRef { k: part(0), v: Some(part(1)) }
            }
        }
    }

    /// The keys (0) or the values (1), to be written.
    ///
    /// # Errors
    ///
    /// The value tensor of a cache without values.
    pub fn part(&mut self, part: usize) -> Result<TensorMut<'_>, TensorError> {
        let missing = TensorError::Select { dim: 0, index: part, shape: vec![1] };
        match &mut self.tensors {
            KvTensors::Separate { k, .. } if part == 0 => Ok(k.reborrow()),
            KvTensors::Separate { v, .. } => v.as_mut().map(TensorMut::reborrow).ok_or(missing),
            KvTensors::Fused(pool) => pool.reborrow().select(1, part),
        }
    }
}
