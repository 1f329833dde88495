//! Tensors in host memory with their shapes and strides: keys, values and side data of a case.

use attn_core::tensor::{TensorError, TensorRef};

use super::Order;
use super::host::Host;

/// A tensor in host memory.
#[derive(Clone, Debug)]
pub struct HostTensor {
    /// Its memory.
    pub host: Host,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Strides in elements.
    pub strides: Vec<i64>,
}

impl HostTensor {
    pub(super) fn tensor(&self) -> Result<TensorRef<'_>, TensorError> {
        self.host.strided(0, &self.shape, &self.strides)
    }

    /// The offset of a row, in elements. Rows are counted over all dimensions but the last.
    pub(super) fn row_offset(&self, row: usize) -> usize {
        let (mut rest, mut at) = (row, 0);
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).rev().skip(1) {
            at += rest % extent * stride as usize;
            rest /= extent;
        }
        at
    }
}

/// The dimensions of keys or values before that of a row's elements: tokens or (pages, slots), then KV heads.
pub(super) struct KvDims<'a> {
    /// (tokens), or (pages, slots).
    pub(super) tokens: &'a [usize],
    pub(super) heads: usize,
    /// Whether tokens (slots) or heads are outside in memory.
    pub(super) order: Order,
}

impl KvDims<'_> {
    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.tokens.iter().product::<usize>() * self.heads
    }

    /// Shape and strides of a dense tensor with rows of `row` elements. The shape has heads behind tokens in either
    /// order of memory.
    pub(super) fn with_rows_of(&self, row: usize) -> (Vec<usize>, Vec<i64>) {
        let shape = [self.tokens, &[self.heads, row]].concat();
        // the dimensions from the outermost in memory to the innermost
        let mut dims: Vec<usize> = (0..shape.len()).collect();
        if self.order == Order::Hnd {
            dims.swap(self.tokens.len() - 1, self.tokens.len());
        }
        let mut strides = vec![1i64; shape.len()];
        let mut step = 1i64;
        for &dim in dims.iter().rev() {
            strides[dim] = step;
            step *= shape[dim] as i64;
        }
        (shape, strides)
    }
}
