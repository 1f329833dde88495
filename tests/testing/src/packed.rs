//! Keys and values of a case in KV formats: random rows, encoded on the CPU.

use attn::{Dtype, Error, Variant};
use attn_core::lang::kv_format::{ErasedKvFormat, KvFormats, RowBytes};
use attn_core::tensor::{TensorError, TensorRef};

use super::host::Host;
use super::random::{Normal, Random};
use super::{Case, Order, TestError, fill};

/// Encoded rows of each head that repeat in tensors that are only timed.
const PERIOD: usize = 509;

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

/// The outer dimensions of keys or values: (tokens) or (pages, slots), and heads.
pub(super) struct Outer<'a> {
    pub(super) shape: &'a [usize],
    pub(super) heads: usize,
    pub(super) order: Order,
}

impl Outer<'_> {
    /// Shape and strides of a tensor with rows of `row` elements.
    pub(super) fn of(&self, row: usize) -> (Vec<usize>, Vec<i64>) {
        let shape = [self.shape, &[self.heads, row]].concat();
        // slots or tokens, and heads, in the given order
        let mut dims: Vec<usize> = (0..shape.len()).collect();
        if self.order == Order::Hnd {
            dims.swap(self.shape.len() - 1, self.shape.len());
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

/// The KV formats of a case, bound to its heads, with their parameter tensors filled; `None` for keys of numbers.
pub(super) fn formats(case: &Case) -> Result<Option<KvFormats>, TestError> {
    let dtypes = case.dtypes()?;
    let over = Variant::full().over(dtypes, case.head_dim_vo).map_err(TensorError::from);
    let (variant, _) = over.map_err(Error::from)?;
    if variant.kv_formats().is_none() {
        return Ok(None);
    }
    let filled = fill::complete(&variant, &case.dims(), case)?;
    Ok(filled.bind(&case.dims()).map_err(Error::from)?.kv_formats().cloned())
}

/// Random rows of `dim` elements in a format: codes, and side data if the format has any. Bytes that the format does
/// not write are 0xff.
pub(super) fn rows(
    format: &dyn ErasedKvFormat,
    dim: usize,
    outer: &Outer<'_>,
    (random, tiled): (&mut Random, bool),
) -> (HostTensor, Option<HostTensor>) {
    let bytes = RowBytes::of(format, dim as u32);
    let count = outer.shape.iter().product::<usize>() * outer.heads;
    let [mut codes, mut side] = [bytes.codes, bytes.side].map(|row| {
        let (shape, strides) = outer.of(row);
        HostTensor { host: Host::nan(Dtype::U8, count * row), shape, strides }
    });
    let normal = Normal::new(1.0);
    let mut x = vec![0f32; dim];
    let mut encoded = Vec::new();
    for row in 0..count {
        let head = row % outer.heads;
        let repeated = if tiled { row % (PERIOD * outer.heads) } else { row };
        if repeated == encoded.len() {
            normal.fill(&mut x, random);
            let (mut codes, mut side) = (vec![0xff; bytes.codes], vec![0xff; bytes.side]);
            format.encode_row(&x, &mut codes, &mut side, head as i32);
            encoded.push((codes, side));
        }
        let from = &encoded[repeated];
        for (to, from) in [(&mut codes, &from.0), (&mut side, &from.1)] {
            let at = to.offset(row);
            to.host.bytes_mut()[at..at + from.len()].copy_from_slice(from);
        }
        if !tiled {
            // rows before this one are not needed again
            encoded[row] = Default::default();
        }
    }
    (codes, (bytes.side > 0).then_some(side))
}

impl HostTensor {
    pub(super) fn tensor(&self) -> Result<TensorRef<'_>, TensorError> {
        self.host.strided(0, &self.shape, &self.strides)
    }

    /// The first element of a row, counted over the outer dimensions.
    fn offset(&self, row: usize) -> usize {
        let (mut rest, mut at) = (row, 0);
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).rev().skip(1) {
            at += rest % extent * stride as usize;
            rest /= extent;
        }
        at
    }
}
