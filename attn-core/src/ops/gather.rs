//! Pages of requests into packed tensors: the keys and values of each request behind those of the request before.
//!
//! An element is multiplied by its scale, in f32, and rounded to the type of the packed tensor; where neither changes it, its bits are copied.

use super::{Array, ArrayMut, KvMut, KvRef, OpError, PageRows, append, check, elements, places};
use crate::{dtype::Dtype, tensor::KvScales};

/// What is gathered.
#[derive(Debug)]
pub struct Gather<'a> {
    /// `[requests + 1]` prefix sums of the keys that are wanted of each request, from its first on: from 0, and at most as many as the packed tensors
    /// have room for. Rows past the last are not written.
    pub kv_indptr: Array<'a, i32>,
    /// The pages of the requests.
    pub rows: PageRows<'a>,
    /// What stored elements are multiplied by.
    pub scales: KvScales<'a>,
    /// One word of the device, to which a kernel adds the tokens that it left out: since their place is outside of the pool or the page table, or since
    /// the packed tensors have no room for them. On the CPU such a token is an error instead.
    pub status: Option<ArrayMut<'a, u32>>,
}

impl<'a> Gather<'a> {
    /// Elements as they are stored.
    #[must_use]
    pub fn new(kv_indptr: Array<'a, i32>, rows: PageRows<'a>) -> Self {
        Gather { kv_indptr, rows, scales: KvScales::default(), status: None }
    }
}

/// Checks what can be seen from the host: all but the numbers in arrays.
///
/// # Errors
///
/// Tensors that do not go together, arrays of other lengths, types that are not converted, a scale that is none.
pub fn check(pools: &KvRef<'_>, kv: &KvMut<'_>, gather: &Gather<'_>) -> Result<(), OpError> {
    let from = check::Side { name: "the pool", k: "k pool", v: "v pool", paged: true };
    let to = check::Side { name: "the packed rows", k: "k", v: "v", paged: false };
    check::both(from, pools, to, kv)?;
    gather.kv_indptr.expect_len("kv_indptr", gather.rows.requests()? + 1)?;
    let (Some(source), Some(target)) = (pools.parts().next(), kv.as_ref().parts().next()) else { return Ok(()) };
    append::scales(&gather.scales, source.shape()[2])?;
    if source.dtype() != target.dtype() || !gather.scales.is_one() {
        check::dtype("k", target.dtype(), &[Dtype::F16, Dtype::Bf16, Dtype::F32])?;
    }
    check::status(gather.status.as_ref())
}

/// Gathers on the CPU.
///
/// # Errors
///
/// As [`check()`], memory of a device, and an entry outside of the pool or the page table. Nothing is written then.
pub fn gather(pools: &KvRef<'_>, kv: &mut KvMut<'_>, gather: &Gather<'_>) -> Result<(), OpError> {
    check(pools, kv, gather)?;
    let (Some(pool), Some(room)) = (pools.parts().next(), kv.as_ref().parts().next().map(|k| k.shape()[0])) else {
        return Ok(());
    };
    let size = places::Pool { pages: pool.shape()[0], page_size: pool.shape()[1] };
    let rows = gather.rows.on_host()?;
    let ends = gather.kv_indptr.on_host("kv_indptr")?;
    let mut from = Vec::new();
    for (index, &end) in ends.iter().enumerate() {
        let (least, most) = (from.len() as i64, if index == 0 { 0 } else { room as i64 });
        places::entry("kv_indptr", index, end.into(), least, most)?;
        for position in 0..end as usize - from.len() {
            from.push(rows.locate(size, from.len(), index - 1, position)?);
        }
    }
    let heads = pool.shape()[2];
    let scales =
        [append::by_head(&gather.scales.k, "k_scales", heads)?, append::by_head(&gather.scales.v, "v_scales", heads)?];
    let names = [["k pool", "k"], ["v pool", "v"]];
    for (part, source) in pools.parts().enumerate() {
        let bytes = source.host_bytes().ok_or_else(|| elements::on_device(names[part][0]))?;
        let mut packed = kv.part(part)?;
        let (strides, dtype, dim) = (packed.strides().to_vec(), packed.dtype(), source.shape()[3]);
        let to = packed.host_bytes_mut().ok_or_else(|| elements::on_device(names[part][1]))?;
        if dim == 0 {
            continue; // rows without values, which lie nowhere
        }
        let scale = if part == 0 { &gather.scales.k } else { &gather.scales.v };
        let raw = source.dtype() == dtype && scale.is_one();
        let mut row = vec![0.0; dim];
        for (token, &(page, slot)) in from.iter().enumerate() {
            for (head, scale) in scales[part].iter().enumerate() {
                let start = elements::offset(&source.strides()[..3], &[page, slot, head], source.dtype().size());
                let at = elements::offset(&strides[..2], &[token, head], dtype.size());
                if raw {
                    let length = dim * dtype.size();
                    to[at..at + length].copy_from_slice(&bytes[start..start + length]);
                } else {
                    elements::read(source.dtype(), &bytes[start..], &mut row);
                    row.iter_mut().for_each(|x| *x *= scale);
                    elements::write(dtype, &mut to[at..], &row);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
