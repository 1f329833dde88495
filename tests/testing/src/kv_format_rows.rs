//! Keys and values of a case in KV formats: random rows, encoded on the CPU.

use attn::{Dtype, Error, Variant};
use attn_core::lang::kv_format::{ErasedKvFormat, KvFormats, RowBytes};
use attn_core::tensor::TensorError;

use super::host::Host;
use super::host_tensor::{HostTensor, KvDims};
use super::random::{Normal, Random};
use super::{Case, TestError, fill};

/// Rows of a head before periodic data repeats. It is prime, so that pages of a request differ.
const PERIOD: usize = 509;

/// The KV formats of a case, bound to its heads, with their parameter tensors filled; `None` for keys of numbers.
pub(super) fn formats_of(case: &Case) -> Result<Option<KvFormats>, TestError> {
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
///
/// Encoding is slow: with `periodic`, the first [`PERIOD`] rows of each head are encoded and then repeated, which is
/// enough for a benchmark. Without, every row has values of its own, so that a kernel that reads a wrong row fails.
pub(super) fn encoded_rows(
    format: &dyn ErasedKvFormat,
    dim: usize,
    dims: &KvDims<'_>,
    random: &mut Random,
    periodic: bool,
) -> (HostTensor, Option<HostTensor>) {
    let bytes = RowBytes::of(format, dim as u32);
    let [mut codes, mut side] = [bytes.codes, bytes.side].map(|row| {
        let (shape, strides) = dims.with_rows_of(row);
        HostTensor { host: Host::nan(Dtype::U8, dims.rows() * row), shape, strides }
    });
    let normal = Normal::new(1.0);
    let mut x = vec![0f32; dim];
    // the rows of one period; without a period, each is emptied once it is copied
    let mut encoded = Vec::new();
    for row in 0..dims.rows() {
        let head = row % dims.heads;
        let source = if periodic { row % (PERIOD * dims.heads) } else { row };
        if source == encoded.len() {
            normal.fill(&mut x, random);
            let (mut codes, mut side) = (vec![0xff; bytes.codes], vec![0xff; bytes.side]);
            format.encode_row(&x, &mut codes, &mut side, head as i32);
            encoded.push((codes, side));
        }
        let from = &encoded[source];
        for (to, from) in [(&mut codes, &from.0), (&mut side, &from.1)] {
            let at = to.row_offset(row);
            to.host.bytes_mut()[at..at + from.len()].copy_from_slice(from);
        }
        if !periodic {
            encoded[row] = Default::default();
        }
    }
    (codes, (bytes.side > 0).then_some(side))
}
