//! Extents and strides, with checked arithmetic.

use std::ops::Range;

use super::TensorError;

/// The greatest rank of a tensor: a fused pool is (pages, 2, slots, kv_heads, head_dim).
pub const MAX_RANK: usize = 5;

#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    rank: usize,
    extents: [usize; MAX_RANK],
    strides: [i64; MAX_RANK],
}

impl Shape {
    pub(super) fn contiguous(shape: &[usize]) -> Result<Self, TensorError> {
        let rank = shape.len();
        if rank == 0 || rank > MAX_RANK {
            return Err(TensorError::Rank { tensor: "tensor", rank, want: "1 to 5" });
        }
        let mut extents = [0; MAX_RANK];
        extents[..rank].copy_from_slice(shape);
        let mut strides = [0; MAX_RANK];
        let mut next = Some(1i64);
        for i in (0..rank).rev() {
            strides[i] = next.ok_or_else(|| TensorError::TooLarge { shape: shape.to_vec() })?;
            // an extent of 0 must not zero the strides outside it
            next = i64::try_from(shape[i].max(1)).ok().and_then(|n| n.checked_mul(strides[i]));
        }
        Ok(Shape { rank, extents, strides })
    }

    pub(super) fn with_strides(mut self, strides: &[i64]) -> Result<Self, TensorError> {
        if strides.len() != self.rank {
            return Err(TensorError::StrideRank { strides: strides.len(), rank: self.rank });
        }
        if let Some(dim) = strides.iter().position(|&stride| stride < 0) {
            return Err(TensorError::Stride { tensor: "tensor", dim, stride: strides[dim], want: "0 or more" });
        }
        self.strides[..self.rank].copy_from_slice(strides);
        Ok(self)
    }

    pub(super) fn extents(&self) -> &[usize] {
        &self.extents[..self.rank]
    }

    pub(super) fn strides(&self) -> &[i64] {
        &self.strides[..self.rank]
    }

    /// One past the greatest offset, in elements; 0 without elements.
    pub(super) fn extent(&self) -> Result<u64, TensorError> {
        if self.extents().contains(&0) {
            return Ok(0);
        }
        let mut last = Some(0u64);
        for (&n, &stride) in self.extents().iter().zip(self.strides()) {
            let reach = (n as u64 - 1).checked_mul(stride as u64);
            last = last.zip(reach).and_then(|(last, reach)| last.checked_add(reach));
        }
        last.filter(|&last| last < i64::MAX as u64 / 8)
            .map(|last| last + 1)
            .ok_or_else(|| TensorError::TooLarge { shape: self.extents().to_vec() })
    }

    pub(super) fn check_extent(&self, len: usize) -> Result<(), TensorError> {
        let extent = self.extent()?;
        if extent <= len as u64 { Ok(()) } else { Err(TensorError::Extent { extent, len: len as u64 }) }
    }

    /// Checks that `other`, which has the same extents, reaches no element that this shape does not.
    pub(super) fn check_reach(&self, other: &Shape) -> Result<(), TensorError> {
        let (extent, len) = (other.extent()?, self.extent()?);
        if extent > len {
            return Err(TensorError::Extent { extent, len });
        }
        // an extent of 1 has no second index, and a stride of 0 repeats the first
        let mut dims = self.extents().iter().zip(self.strides().iter().zip(other.strides()));
        let same = dims.all(|(&n, (own, stride))| n <= 1 || stride == own || *stride == 0);
        if same || extent == 0 || self.is_dense(len) {
            return Ok(());
        }
        let (shape, own) = (self.extents().to_vec(), self.strides().to_vec());
        Err(TensorError::Gaps { shape, strides: other.strides().to_vec(), own })
    }

    /// Whether every offset below the extent is that of exactly one index.
    fn is_dense(&self, extent: u64) -> bool {
        let count = self.extents().iter().try_fold(1u64, |count, &n| count.checked_mul(n as u64));
        self.is_disjoint() && count == Some(extent)
    }

    pub(super) fn permuted(&self, order: &[usize]) -> Result<Self, TensorError> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..self.rank) {
            return Err(TensorError::Order { order: order.to_vec(), rank: self.rank });
        }
        let mut to = *self;
        for (i, &from) in order.iter().enumerate() {
            to.extents[i] = self.extents[from];
            to.strides[i] = self.strides[from];
        }
        Ok(to)
    }

    /// Offset and shape of the part with `index` in dimension `dim`.
    pub(super) fn select(&self, dim: usize, index: usize) -> Result<(u64, Self), TensorError> {
        if self.rank < 2 || dim >= self.rank || index >= self.extents[dim] {
            return Err(TensorError::Select { dim, index, shape: self.extents().to_vec() });
        }
        // the offset is within the extent, which is checked, so it does not overflow if there are elements
        let offset = if self.extent()? == 0 { 0 } else { index as u64 * self.strides[dim] as u64 };
        let mut to = *self;
        to.extents.copy_within(dim + 1.., dim);
        to.strides.copy_within(dim + 1.., dim);
        to.rank -= 1;
        Ok((offset, to))
    }

    /// Offset and shape of the part with the indices of `range` in dimension `dim`.
    pub(super) fn narrow(&self, dim: usize, range: Range<usize>) -> Result<(u64, Self), TensorError> {
        if dim >= self.rank || range.start > range.end || range.end > self.extents[dim] {
            return Err(TensorError::Narrow { dim, range, shape: self.extents().to_vec() });
        }
        let mut to = *self;
        to.extents[dim] = range.len();
        // as in `select`
        let offset = if to.extent()? == 0 { 0 } else { range.start as u64 * self.strides[dim] as u64 };
        Ok((offset, to))
    }

    /// Whether each stride exceeds the greatest offset of the dimensions inside it, so that no two indices share an
    /// element.
    pub(super) fn is_disjoint(&self) -> bool {
        let mut dims: Vec<_> = self.strides().iter().zip(self.extents()).filter(|(_, n)| **n > 1).collect();
        dims.sort_unstable();
        let mut inner = 0u64; // largest offset within the dimensions seen
        dims.into_iter().all(|(&stride, &n)| {
            let apart = stride as u64 > inner;
            inner = inner.saturating_add((n as u64 - 1).saturating_mul(stride as u64));
            apart
        })
    }
}
