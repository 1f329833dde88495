//! Lengths and strides of tensors.

use attn_core::tensor::MAX_RANK;
use pyo3::{prelude::*, types::PyTuple};

use crate::error::Failure;

/// Lengths and strides, in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dims {
    rank: usize,
    shape: [usize; MAX_RANK],
    strides: [i64; MAX_RANK],
}

impl Dims {
    /// Of slices; without strides it is row-major.
    pub(crate) fn new(shape: &[i64], strides: Option<&[i64]>, name: &str) -> Result<Self, Failure> {
        let rank = shape.len();
        if rank > MAX_RANK {
            return Err(Failure::tensor(format!("{name} has {rank} dimensions; there may be {MAX_RANK}")));
        }
        let mut dims = Dims { rank, shape: [0; MAX_RANK], strides: [0; MAX_RANK] };
        for (to, &length) in dims.shape.iter_mut().zip(shape) {
            let length = usize::try_from(length);
            *to = length.map_err(|_| Failure::tensor(format!("{name} has the shape {shape:?}")))?;
        }
        match strides {
            // of no elements numpy and others have any strides, 0 among them
            Some(strides) if !dims.is_empty() => dims.strides[..rank].copy_from_slice(strides),
            _ => {
                let mut next = 1i64;
                for i in (0..rank).rev() {
                    dims.strides[i] = next;
                    next = next.saturating_mul(shape[i].max(1));
                }
            }
        }
        Ok(dims)
    }

    /// Of the tuples that torch gives.
    pub(crate) fn read(shape: &Bound<'_, PyTuple>, strides: &Bound<'_, PyTuple>, name: &str) -> Result<Self, Failure> {
        let rank = shape.len();
        let mut read = [[0i64; MAX_RANK]; 2];
        if rank > MAX_RANK || strides.len() != rank {
            return Err(Failure::tensor(format!("{name} has {rank} dimensions; there may be {MAX_RANK}")));
        }
        for (to, tuple) in read.iter_mut().zip([shape, strides]) {
            for (i, to) in to[..rank].iter_mut().enumerate() {
                *to = tuple.get_borrowed_item(i)?.extract()?;
            }
        }
        Dims::new(&read[0][..rank], Some(&read[1][..rank]), name)
    }

    /// With one more dimension of length 1, of the stride of the first; `None` for more dimensions than tensors have.
    pub(crate) fn with_one_at(&self, at: usize) -> Option<Self> {
        if self.rank == MAX_RANK || at == 0 || at > self.rank {
            return None;
        }
        let mut dims = *self;
        dims.shape.copy_within(at..self.rank, at + 1);
        dims.strides.copy_within(at..self.rank, at + 1);
        (dims.shape[at], dims.strides[at], dims.rank) = (1, self.strides[0], self.rank + 1);
        Some(dims)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// Whether the elements are one after the other.
    pub(crate) fn is_row_major(&self) -> bool {
        let mut next = 1i64;
        self.shape().iter().zip(self.strides()).rev().all(|(&length, &stride)| {
            let fits = length <= 1 || stride == next;
            next = next.saturating_mul(length as i64);
            fits
        })
    }

    /// Elements; `None` for more than there are addresses.
    pub(crate) fn count(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        self.shape().iter().try_fold(1usize, |count, &length| count.checked_mul(length))
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape[..self.rank]
    }

    pub(crate) fn strides(&self) -> &[i64] {
        &self.strides[..self.rank]
    }
}
