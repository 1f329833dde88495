//! Keys and values that ops read and write: contiguous rows, or pools of pages.

use super::OpError;
use crate::tensor::{Kv, KvSides, PageOrder, TensorError, TensorMut, TensorRef};

/// Keys and values that an op reads: packed tensors of (tokens, kv_heads, head_dim), or pools of (pages, slots,
/// kv_heads, head_dim), in any strides. A latent cache (MLA) has one tensor, which is given as keys alone. Keys and
/// values may differ in head_dim. Rows of a KV format are bytes, and may have side data.
#[derive(Clone, Copy, Debug)]
pub struct KvRef<'a> {
    k: TensorRef<'a>,
    v: Option<TensorRef<'a>>,
    sides: KvSides<'a>,
}

/// Keys and values that an op writes, as [`KvRef`]; no two elements may share memory.
#[derive(Debug)]
pub struct KvMut<'a> {
    tensors: KvTensors<'a>,
    sides: KvSidesMut<'a>,
}

/// Side data of stored rows that an op writes, as [`KvSides`].
#[derive(Debug)]
pub struct KvSidesMut<'a> {
    sides: SideTensors<'a>,
}

#[derive(Debug)]
enum SideTensors<'a> {
    Separate([Option<TensorMut<'a>>; 2]),
    /// (pages, 2, slots, kv_heads, bytes)
    Fused(TensorMut<'a>),
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
        KvRef { k, v: Some(v), sides: KvSides::default() }
    }

    /// One tensor: a latent cache, or keys alone.
    #[must_use]
    pub fn latent(c: TensorRef<'a>) -> Self {
        KvRef { k: c, v: None, sides: KvSides::default() }
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

    /// The same rows of codes with their side data, in the order of dimensions of the codes.
    #[must_use]
    pub fn with_sides(self, sides: KvSides<'a>) -> Self {
        KvRef { sides, ..self }
    }

    /// The side data of stored rows.
    #[must_use]
    pub fn sides(&self) -> KvSides<'a> {
        self.sides
    }

    /// The side data as keys and values of its own, for ops that move rows as they are; `None` without any.
    #[must_use]
    pub fn side_planes(&self) -> Option<Self> {
        match (self.sides.k, self.sides.v) {
            (Some(k), Some(v)) => Some(Self::new(k, v)),
            (one, other) => one.or(other).map(Self::latent),
        }
    }

    /// The keys (0) or the values.
    pub(crate) fn part(&self, part: usize) -> Option<TensorRef<'a>> {
        if part == 0 { Some(self.k) } else { self.v }
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
        Self::new(kv.k, kv.v).with_sides(kv.sides)
    }
}

impl<'a> KvSidesMut<'a> {
    /// Side data of keys and of values, where rows have any.
    #[must_use]
    pub fn new(k: impl Into<Option<TensorMut<'a>>>, v: impl Into<Option<TensorMut<'a>>>) -> Self {
        KvSidesMut { sides: SideTensors::Separate([k.into(), v.into()]) }
    }

    /// Two pools with pages in `order`.
    ///
    /// # Errors
    ///
    /// A pool that has not rank 4.
    pub fn paged_in(k: Option<TensorMut<'a>>, v: Option<TensorMut<'a>>, order: PageOrder) -> Result<Self, OpError> {
        let logical = |name, pool: Option<TensorMut<'a>>| pool.map(|pool| logical(name, pool, order)).transpose();
        Ok(Self::new(logical("k side", k)?, logical("v side", v)?))
    }

    /// One pool for keys and values, as [`KvMut::fused`].
    ///
    /// # Errors
    ///
    /// The errors of [`KvMut::fused`].
    pub fn fused(pool: TensorMut<'a>, order: PageOrder) -> Result<Self, OpError> {
        Ok(KvSidesMut { sides: SideTensors::Fused(fused(pool, order)?) })
    }

    /// A view for reading.
    #[must_use]
    pub fn as_ref(&self) -> KvSides<'_> {
        match &self.sides {
            SideTensors::Separate([k, v]) => {
                KvSides::new(k.as_ref().map(TensorMut::as_ref), v.as_ref().map(TensorMut::as_ref))
            }
            SideTensors::Fused(pool) => KvSides::new(pool.as_ref().select(1, 0).ok(), pool.as_ref().select(1, 1).ok()),
        }
    }

    fn part(&mut self, part: usize) -> Option<TensorMut<'_>> {
        match &mut self.sides {
            SideTensors::Separate(sides) => sides[part].as_mut().map(TensorMut::reborrow),
            SideTensors::Fused(pool) => pool.reborrow().select(1, part).ok(),
        }
    }
}

/// A pool in the logical order of dimensions.
fn logical<'a>(name: &'static str, pool: TensorMut<'a>, order: PageOrder) -> Result<TensorMut<'a>, OpError> {
    order.logical(name, pool.as_ref())?; // checks the rank
    Ok(if order == PageOrder::Hnd { pool.permuted(&[0, 2, 1, 3])? } else { pool })
}

/// A pool of keys and values in the logical order of dimensions.
fn fused(pool: TensorMut<'_>, order: PageOrder) -> Result<TensorMut<'_>, OpError> {
    Kv::paged_fused(pool.as_ref(), order)?; // checks the shape
    Ok(if order == PageOrder::Hnd { pool.permuted(&[0, 1, 3, 2, 4])? } else { pool })
}

impl<'a> KvMut<'a> {
    /// Keys and values.
    #[must_use]
    pub fn new(k: TensorMut<'a>, v: TensorMut<'a>) -> Self {
        KvMut { tensors: KvTensors::Separate { k, v: Some(v) }, sides: KvSidesMut::new(None, None) }
    }

    /// One tensor: a latent cache, or keys alone.
    #[must_use]
    pub fn latent(c: TensorMut<'a>) -> Self {
        KvMut { tensors: KvTensors::Separate { k: c, v: None }, sides: KvSidesMut::new(None, None) }
    }

    /// Two pools with pages in `order`.
    ///
    /// # Errors
    ///
    /// A pool that has not rank 4.
    pub fn paged_in(k_pool: TensorMut<'a>, v_pool: TensorMut<'a>, order: PageOrder) -> Result<Self, OpError> {
        Ok(Self::new(logical("k pool", k_pool, order)?, logical("v pool", v_pool, order)?))
    }

    /// One pool that holds the keys and the values of each page: (pages, 2, ..) with the rest in `order`.
    ///
    /// # Errors
    ///
    /// A pool that has not rank 5, or not 2 in its second dimension.
    pub fn fused(pool: TensorMut<'a>, order: PageOrder) -> Result<Self, OpError> {
        Ok(KvMut { tensors: KvTensors::Fused(fused(pool, order)?), sides: KvSidesMut::new(None, None) })
    }

    /// The same rows of codes with their side data, in the order of dimensions of the codes.
    #[must_use]
    pub fn with_sides(self, sides: KvSidesMut<'a>) -> Self {
        KvMut { sides, ..self }
    }

    /// Whether there are values.
    #[must_use]
    pub fn has_values(&self) -> bool {
        !matches!(self.tensors, KvTensors::Separate { v: None, .. })
    }

    /// A view for reading.
    #[must_use]
    pub fn as_ref(&self) -> KvRef<'_> {
        let (k, v) = match &self.tensors {
            KvTensors::Separate { k, v } => (k.as_ref(), v.as_ref().map(TensorMut::as_ref)),
            KvTensors::Fused(pool) => {
                // the shape was checked when this was made
                let part = |index| pool.as_ref().select(1, index).unwrap_or(pool.as_ref());
                (part(0), Some(part(1)))
            }
        };
        KvRef { k, v, sides: self.sides.as_ref() }
    }

    /// The keys (0) or the values (1), to be written.
    ///
    /// # Errors
    ///
    /// The value tensor of a cache without values.
    pub fn part(&mut self, part: usize) -> Result<TensorMut<'_>, TensorError> {
        Ok(self.planes(part)?.0)
    }

    /// The elements of keys, part 0, or of values, part 1, with their side data.
    ///
    /// # Errors
    ///
    /// The errors of [`KvMut::part`].
    pub fn planes(&mut self, part: usize) -> Result<(TensorMut<'_>, Option<TensorMut<'_>>), TensorError> {
        let side = self.sides.part(part);
        let missing = TensorError::Select { dim: 0, index: part, shape: vec![1] };
        let codes = match &mut self.tensors {
            KvTensors::Separate { k, .. } if part == 0 => k.reborrow(),
            KvTensors::Separate { v, .. } => v.as_mut().map(TensorMut::reborrow).ok_or(missing)?,
            KvTensors::Fused(pool) => pool.reborrow().select(1, part)?,
        };
        Ok((codes, side))
    }
}
