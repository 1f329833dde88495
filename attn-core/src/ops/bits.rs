//! Packs masks of bools into bits, eight to a byte.
//!
//! The stock variant `custom_mask` reads bits in [`BitOrder::Little`], and takes the offset of each request in *bits*:
//! eight times what [`segments`] writes to `out_indptr`, which counts bytes as FlashInfer does.
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

use super::{Array, ArrayMut, OpError, slot_mapping::check_entry};

/// Order of bits within a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BitOrder {
    /// The first bool is the lowest bit.
    #[default]
    Little,
    /// The first bool is the highest bit.
    Big,
}

impl BitOrder {
    /// Packs up to eight bools (nonzero is true) into a byte; missing bools are 0.
    fn byte(self, bools: &[u8]) -> u8 {
        let little = bools.iter().rev().fold(0, |byte, &x| byte << 1 | u8::from(x != 0));
        match self {
            BitOrder::Little => little,
            BitOrder::Big => little.reverse_bits(),
        }
    }
}

/// Packs a list of bools; unused bits of the last byte are 0.
#[must_use]
pub fn pack(bools: &[bool], order: BitOrder) -> Vec<u8> {
    bytemuck::cast_slice(bools).chunks(8).map(|eight| order.byte(eight)).collect()
}

/// Packs consecutive lists of bools, whose prefix sums are `indptr`. Each list starts at a new byte. Returns the bytes,
/// and their prefix sums.
///
/// # Errors
///
/// An `indptr` that does not rise from 0 to the number of bools.
pub fn pack_segments(bools: &[bool], indptr: &[i32], order: BitOrder) -> Result<(Vec<u8>, Vec<i32>), OpError> {
    let mut bytes = vec![0; bools.len().div_ceil(8) + indptr.len()];
    let mut ends = vec![0; indptr.len()];
    let (bools, out) = (Array::host(bytemuck::cast_slice(bools)), &mut ArrayMut::host(&mut bytes));
    segments(&bools, &Array::host(indptr), order, out, &mut ArrayMut::host(&mut ends))?;
    bytes.truncate(ends.last().map_or(0, |&end| end as usize));
    Ok((bytes, ends))
}

/// Checks the arguments of [`packbits`].
///
/// # Errors
///
/// An output that is too short.
pub fn check(bools: &Array<'_, u8>, out: &ArrayMut<'_, u8>) -> Result<(), OpError> {
    check_min_len("out", out.len(), bools.len().div_ceil(8))
}

/// Checks the arguments of [`segments`], except for the entries of arrays. The output must hold the worst case: one
/// byte more for each list than all bools together need.
///
/// # Errors
///
/// Arrays of different lengths, or an output that is too short.
pub fn check_segments(
    bools: &Array<'_, u8>,
    indptr: &Array<'_, i32>,
    out: &ArrayMut<'_, u8>,
    out_indptr: &ArrayMut<'_, i32>,
) -> Result<(), OpError> {
    check_min_len("indptr", indptr.len(), 1)?;
    if out_indptr.len() != indptr.len() {
        let (len, want) = (out_indptr.len(), indptr.len());
        return Err(OpError::Len { array: "out_indptr", len, want, exact: true });
    }
    // k lists of n bools: at most (n + 7 k) / 8 bytes, rounded down
    let lists = indptr.len() - 1;
    check_min_len("out", out.len(), (bools.len() + 7 * lists) / 8)
}

fn check_min_len(array: &'static str, len: usize, want: usize) -> Result<(), OpError> {
    if len >= want { Ok(()) } else { Err(OpError::Len { array, len, want, exact: false }) }
}

/// Packs bools (bytes; nonzero is true) on the CPU. Bytes of `out` past those needed are unchanged.
///
/// # Errors
///
/// Device memory; the errors of [`check()`].
pub fn packbits(bools: &Array<'_, u8>, order: BitOrder, out: &mut ArrayMut<'_, u8>) -> Result<(), OpError> {
    check(bools, out)?;
    let bools = bools.on_host("bools")?;
    out.on_host("out")?.iter_mut().zip(bools.chunks(8)).for_each(|(to, eight)| *to = order.byte(eight));
    Ok(())
}

/// Packs lists of bools on the CPU, each from a new byte, and writes the prefix sums of their bytes.
///
/// # Errors
///
/// Device memory; an `indptr` that does not rise from 0 to at most the bools; the errors of [`check_segments`].
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
        check_entry("indptr", index, end.into(), before, if index == 0 { 0 } else { bools.len() as i64 })?;
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
