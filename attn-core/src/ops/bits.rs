//! Masks of bools into bits, eight in a byte.
//!
//! The stock variant `custom_mask` reads bits of [`BitOrder::Little`], and says in *bits* where each request's begin: eight times what [`segments`] puts into
//! `out_indptr`, which counts bytes as FlashInfer does.
//!
//! ```
//! use attn_core::ops::bits::{BitOrder, pack, pack_segments};
//!
//! assert_eq!(pack(&[true, false, false, true, true], BitOrder::Little), [0b0001_1001]);
//! assert_eq!(pack(&[true, false, false, true, true], BitOrder::Big), [0b1001_1000]);
//! // two requests: 3 bools and 9; each begins at a byte of its own
//! let bools = [[true; 3].as_slice(), &[false, true, false, false, false, false, false, false, true]].concat();
//! let (bits, bytes) = pack_segments(&bools, &[0, 3, 12], BitOrder::Little)?;
//! assert_eq!((bits, bytes.clone()), (vec![0b111, 0b10, 0b1], vec![0, 1, 3]));
//! let offsets: Vec<i32> = bytes[..2].iter().map(|byte| 8 * byte).collect(); // for `custom_mask`
//! assert_eq!(offsets, [0, 8]);
//! # Ok::<(), attn_core::ops::OpError>(())
//! ```

use super::{Array, ArrayMut, OpError, places::entry};

/// In which order bits fill a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BitOrder {
    /// The first in the lowest bit.
    #[default]
    Little,
    /// The first in the highest bit.
    Big,
}

impl BitOrder {
    /// Up to eight bools, not 0 where true, as a byte; what is missing is 0.
    fn byte(self, bools: &[u8]) -> u8 {
        let little = bools.iter().rev().fold(0, |byte, &x| byte << 1 | u8::from(x != 0));
        match self {
            BitOrder::Little => little,
            BitOrder::Big => little.reverse_bits(),
        }
    }
}

/// The bits of a list of bools; the last byte is filled with 0.
#[must_use]
pub fn pack(bools: &[bool], order: BitOrder) -> Vec<u8> {
    bytemuck::cast_slice(bools).chunks(8).map(|eight| order.byte(eight)).collect()
}

/// The bits of lists of bools one after the other, `indptr` their prefix sums: each list begins at a byte, and the prefix sums of bytes come with them.
///
/// # Errors
///
/// An `indptr` that is not from 0 to the number of bools, in order.
pub fn pack_segments(bools: &[bool], indptr: &[i32], order: BitOrder) -> Result<(Vec<u8>, Vec<i32>), OpError> {
    let mut bytes = vec![0; bools.len().div_ceil(8) + indptr.len()];
    let mut ends = vec![0; indptr.len()];
    let (bools, out) = (Array::host(bytemuck::cast_slice(bools)), &mut ArrayMut::host(&mut bytes));
    segments(&bools, &Array::host(indptr), order, out, &mut ArrayMut::host(&mut ends))?;
    bytes.truncate(ends.last().map_or(0, |&end| end as usize));
    Ok((bytes, ends))
}

/// Checks what [`packbits`] is given.
///
/// # Errors
///
/// Too little room.
pub fn check(bools: &Array<'_, u8>, out: &ArrayMut<'_, u8>) -> Result<(), OpError> {
    room("out", out.len(), bools.len().div_ceil(8))
}

/// Checks what [`segments`] is given, but for the numbers. There must be room for the worst: a byte more for each list than all bools fill.
///
/// # Errors
///
/// Arrays that do not go together, or too little room.
pub fn check_segments(
    bools: &Array<'_, u8>,
    indptr: &Array<'_, i32>,
    out: &ArrayMut<'_, u8>,
    out_indptr: &ArrayMut<'_, i32>,
) -> Result<(), OpError> {
    room("indptr", indptr.len(), 1)?;
    if out_indptr.len() != indptr.len() {
        let (len, want) = (out_indptr.len(), indptr.len());
        return Err(OpError::Len { array: "out_indptr", len, want, exact: true });
    }
    // k lists of n bools: at most (n + 7 k) / 8 bytes, rounded down
    let lists = indptr.len() - 1;
    room("out", out.len(), (bools.len() + 7 * lists) / 8)
}

fn room(array: &'static str, len: usize, want: usize) -> Result<(), OpError> {
    if len >= want { Ok(()) } else { Err(OpError::Len { array, len, want, exact: false }) }
}

/// Packs bools (bytes; not 0 is true), on the CPU. Bytes of `out` past those needed stay as they are.
///
/// # Errors
///
/// As [`check()`], and memory of a device.
pub fn packbits(bools: &Array<'_, u8>, order: BitOrder, out: &mut ArrayMut<'_, u8>) -> Result<(), OpError> {
    check(bools, out)?;
    let bools = bools.on_host("bools")?;
    out.on_host("out")?.iter_mut().zip(bools.chunks(8)).for_each(|(to, eight)| *to = order.byte(eight));
    Ok(())
}

/// Packs lists of bools, each from a byte on, and writes the prefix sums of their bytes; on the CPU.
///
/// # Errors
///
/// As [`check_segments`], memory of a device, and an `indptr` that is not from 0 to at most the number of bools, in order.
pub fn segments(
    bools: &Array<'_, u8>,
    indptr: &Array<'_, i32>,
    order: BitOrder,
    out: &mut ArrayMut<'_, u8>,
    out_indptr: &mut ArrayMut<'_, i32>,
) -> Result<(), OpError> {
    check_segments(bools, indptr, out, out_indptr)?;
    let (bools, indptr) = (bools.on_host("bools")?, indptr.on_host("indptr")?);
    let mut before = 0;
    for (index, &end) in indptr.iter().enumerate() {
        entry("indptr", index, end.into(), before, if index == 0 { 0 } else { bools.len() as i64 })?;
        before = end.into();
    }
    let (out, out_indptr) = (out.on_host("out")?, out_indptr.on_host("out_indptr")?);
    let mut at = 0;
    out_indptr[0] = 0;
    for (list, ends) in indptr.windows(2).enumerate() {
        for eight in bools[ends[0] as usize..ends[1] as usize].chunks(8) {
            out[at] = order.byte(eight);
            at += 1;
        }
        out_indptr[list + 1] = at as i32;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
