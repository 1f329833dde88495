//! Gathers pages of requests into packed tensors, request by request.
//!
//! An element is multiplied by its scale in f32 and rounded to the type of the packed tensor. A row in a KV format is
//! decoded before. Elements that no step changes are copied bit by bit, and so are rows of a format, with their side
//! data, to tensors of bytes.

use super::{
    Array, ArrayMut, KvMut, KvRef, OpError, PageTableRows,
    append::{self, Transform},
    check, elements, slot_mapping,
};
use crate::{
    Variant,
    dtype::Dtype,
    lang::kv_format::ErasedKvFormat,
    tensor::{KvScales, TensorRef},
};

/// The arguments of a gather.
#[derive(Debug)]
pub struct Gather<'a> {
    /// `[requests + 1]` prefix sums, from 0, of the number of keys to gather of each request, from its first key on.
    /// The last sum is at most the token count of the packed tensors; rows past it are not written.
    pub kv_indptr: Array<'a, i32>,
    /// The pages of the requests.
    pub rows: PageTableRows<'a>,
    /// Scales of the stored elements.
    pub scales: KvScales<'a>,
    /// A word in device memory, to which a kernel adds the number of tokens that it skipped, because they are outside
    /// of the pool, the page table or the packed tensors. On the CPU such a token is an error instead.
    pub status: Option<ArrayMut<'a, u32>>,
}

impl<'a> Gather<'a> {
    /// Gathers elements without scales.
    #[must_use]
    pub fn new(kv_indptr: Array<'a, i32>, rows: PageTableRows<'a>) -> Self {
        Gather { kv_indptr, rows, scales: KvScales::default(), status: None }
    }
}

/// Checks everything except the entries of arrays.
///
/// # Errors
///
/// Tensors of different shapes, arrays of a wrong length, types without conversion, or an invalid scale.
pub fn check(
    pools: &KvRef<'_>,
    kv: &KvMut<'_>,
    gather: &Gather<'_>,
    transform: Option<&Transform>,
) -> Result<(), OpError> {
    let from = check::Side { name: "the pool", k: "k pool", v: "v pool", paged: true };
    let to = check::Side { name: "the contiguous rows", k: "k", v: "v", paged: false };
    check::both_sides(from, pools, to, kv, transform.and_then(Transform::formats))?;
    gather.kv_indptr.expect_len("kv_indptr", gather.rows.requests()? + 1)?;
    let (Some(source), Some(target)) = (pools.parts().next(), kv.as_ref().parts().next()) else { return Ok(()) };
    append::check_scales(&gather.scales, source.shape()[2])?;
    if let Some(transform) = transform.filter(|transform| transform.formats().is_some()) {
        transform.check_formats(["k", "v"], &kv.as_ref())?;
    } else if source.dtype() == Dtype::U8 && (target.dtype() != Dtype::U8 || !gather.scales.is_one()) {
        return Err(OpError::NoFormat { tensor: "k pool" });
    } else if source.dtype() != target.dtype() || !gather.scales.is_one() {
        check::dtype("k", target.dtype(), &[Dtype::F16, Dtype::Bf16, Dtype::F32])?;
    }
    check::status(gather.status.as_ref())
}

/// Gathers on the CPU.
///
/// # Errors
///
/// Device memory; an entry outside of pool or page table; the errors of [`check()`]. Nothing is written then.
pub fn gather(pools: &KvRef<'_>, kv: &mut KvMut<'_>, gather: &Gather<'_>) -> Result<(), OpError> {
    gather_with(pools, kv, gather, None)
}

/// Gathers rows in the KV formats of a transform. Its hooks do not run: rows come as they are stored.
///
/// # Errors
///
/// The errors of [`gather()`].
pub fn gather_with(
    pools: &KvRef<'_>,
    kv: &mut KvMut<'_>,
    gather: &Gather<'_>,
    transform: Option<&Transform>,
) -> Result<(), OpError> {
    check(pools, kv, gather, transform)?;
    let variant = transform.map(Transform::current);
    let formats = variant.as_ref().and_then(Variant::kv_formats);
    let (Some(pool), Some(token_capacity)) = (pools.parts().next(), kv.as_ref().parts().next().map(|k| k.shape()[0]))
    else {
        return Ok(());
    };
    let size = slot_mapping::PoolShape { pages: pool.shape()[0], page_size: pool.shape()[1] };
    let rows = gather.rows.on_host()?;
    let ends = gather.kv_indptr.on_host("kv_indptr")?;
    let mut from = Vec::new();
    for (index, &end) in ends.iter().enumerate() {
        let (least, most) = (from.len() as i64, if index == 0 { 0 } else { token_capacity as i64 });
        slot_mapping::check_entry("kv_indptr", index, end.into(), least, most)?;
        for position in 0..end as usize - from.len() {
            from.push(rows.locate(size, from.len(), index - 1, position)?);
        }
    }
    let heads = pool.shape()[2];
    let scales = [
        append::scales_of_heads(&gather.scales.k, "k_scales", heads)?,
        append::scales_of_heads(&gather.scales.v, "v_scales", heads)?,
    ];
    for (part, source) in pools.parts().enumerate() {
        let scale = if part == 0 { &gather.scales.k } else { &gather.scales.v };
        let of_part = PartOfPools {
            name: ["k pool", "v pool"][part],
            source,
            side: pools.sides().part(part),
            format: formats.map(|formats| formats.part(part)),
            head_scales: &scales[part],
            is_scaled: !scale.is_one(),
        };
        of_part.gather(part, kv, &from)?;
    }
    Ok(())
}

/// Keys (part 0) or values of pools.
struct PartOfPools<'a> {
    name: &'static str,
    source: TensorRef<'a>,
    /// The side data, in a KV format that has any.
    side: Option<TensorRef<'a>>,
    format: Option<&'a dyn ErasedKvFormat>,
    head_scales: &'a [f32],
    is_scaled: bool,
}

impl PartOfPools<'_> {
    /// Writes token `i` of the packed tensors from the page and slot `from[i]`.
    fn gather(&self, part: usize, kv: &mut KvMut<'_>, from: &[(usize, usize)]) -> Result<(), OpError> {
        let source = &self.source;
        let bytes = source.host_bytes().ok_or_else(|| elements::on_device(self.name))?;
        let side = self.side.as_ref().map(|side| append::side_rows(side, part)).transpose()?;
        let side_bytes = self.side.as_ref().map_or(0, |side| side.shape()[3]);
        let packed_name = ["k", "v"][part];
        let (mut packed, mut to_side) = kv.planes(part)?;
        if to_side.as_ref().is_some_and(|side| side.device_ptr().is_some()) {
            return Err(elements::on_device("side data").into());
        }
        if packed.device_ptr().is_some() {
            return Err(elements::on_device(packed_name).into());
        }
        let (dtype, dim) = (packed.dtype(), packed.shape()[2]);
        if dim == 0 {
            return Ok(()); // rows of no elements have no memory
        }
        let is_copied = source.dtype() == dtype && !self.is_scaled;
        let mut row = vec![0.0; dim];
        for (token, &(page, slot)) in from.iter().enumerate() {
            for (head, scale) in self.head_scales.iter().enumerate() {
                let start = elements::offset(&source.strides()[..3], &[page, slot, head], source.dtype().size());
                let to = packed.host_row_mut(&[token, head], dim).ok_or_else(|| elements::on_device(packed_name))?;
                let side = side.map_or(&[][..], |(bytes, strides)| {
                    &bytes[elements::offset(&strides[..3], &[page, slot, head], 1)..][..side_bytes]
                });
                if is_copied {
                    to.copy_from_slice(&bytes[start..start + to.len()]);
                    let to_side = to_side.as_mut().and_then(|to| to.host_row_mut(&[token, head], side.len()));
                    to_side.into_iter().for_each(|to| to.copy_from_slice(side));
                    continue;
                }
                match self.format {
                    None => elements::read(source.dtype(), &bytes[start..], &mut row),
                    Some(format) => {
                        format.decode_row(&bytes[start..][..source.shape()[3]], side, head as i32, &mut row);
                    }
                }
                row.iter_mut().for_each(|x| *x *= scale);
                elements::write(dtype, to, &row);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
