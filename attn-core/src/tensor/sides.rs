//! Side data of stored keys and values.

use super::{PageOrder, TensorError, TensorRef};

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

    /// Two pools whose pages have the order `order`, as [`Kv::paged_in`](super::Kv::paged_in).
    ///
    /// # Errors
    ///
    /// The rank of a pool is not 4.
    pub fn paged_in(k: Option<TensorRef<'a>>, v: Option<TensorRef<'a>>, order: PageOrder) -> Result<Self, TensorError> {
        let logical = |name, pool: Option<TensorRef<'a>>| pool.map(|pool| order.logical(name, pool)).transpose();
        Ok(KvSides { k: logical(NAMES[0], k)?, v: logical(NAMES[1], v)? })
    }

    /// One pool with the side data of the keys and then of the values of each page: (pages, 2, ..), the rest in the
    /// order `order`.
    ///
    /// # Errors
    ///
    /// The rank is not 5, or the second dimension is not 2.
    pub fn fused(pool: TensorRef<'a>, order: PageOrder) -> Result<Self, TensorError> {
        let kv = super::Kv::paged_fused(pool, order)?;
        Ok(Self::new(kv.k, kv.v))
    }

    /// Of keys (0) or of values.
    #[must_use]
    pub fn part(&self, part: usize) -> Option<TensorRef<'a>> {
        if part == 0 { self.k } else { self.v }
    }
}

/// The names of both in errors.
pub(crate) const NAMES: [&str; 2] = ["k side", "v side"];

/// The error for side data that no row has.
pub(crate) fn superfluous(part: usize) -> TensorError {
    TensorError::NoSide { tensor: NAMES[part] }
}

/// The error for side data that is not given.
pub(crate) fn absent(part: usize) -> TensorError {
    TensorError::Absent {
        tensor: NAMES[part],
        why: "the KV format stores side data beside the codes of a row; give it with `with_sides`",
    }
}
