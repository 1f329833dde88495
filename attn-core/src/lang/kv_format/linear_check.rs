//! Whether a format decodes to what its linear codes say.

use super::{ErasedKvFormat, LinearCodes};

/// Why a format of rows of `dim` elements does not have these codes; `None` if it does. A row of arbitrary bytes is
/// decoded both ways.
pub(super) fn mistake(linear: LinearCodes, format: &dyn ErasedKvFormat, dim: i32) -> Option<String> {
    let (LinearCodes { bits, signed, .. }, group) = (linear, linear.group_of(dim));
    let [code_bytes, side_bytes] = [format.code_bytes(dim), format.side_bytes(dim)].map(|n| n.max(0) as usize);
    if !matches!(bits, 4 | 8) || group <= 0 || dim % group != 0 || code_bytes * 8 < dim as usize * bits as usize {
        return Some(format!(
            "`linear` says codes of {bits} bits in groups of {group}, and a row has {code_bytes} bytes of codes; \
            there are codes of 4 and of 8 bits, and whole groups"
        ));
    }
    let bytes = |count: usize, seed: usize| (0..count).map(|i| ((i + seed) * 97 % 251) as u8).collect::<Vec<u8>>();
    let (codes, side) = (bytes(code_bytes, 3), bytes(side_bytes, 40));
    let mut row = vec![0.0; dim as usize];
    format.decode_row(&codes, &side, 0, &mut row);
    let differs = |d: usize| {
        let (g, x) = (d as i32 / group, row[d]);
        let product = linear.code(&codes, d) * format.scale_of(&side, 0, g);
        let zero = if signed { 0.0 } else { format.zero_of(&side, 0, g) };
        // one of the two may be fused
        let near = (x - (product + zero)).abs() <= 1e-5 * (product.abs() + zero.abs());
        let neither = !x.is_finite() && !(product + zero).is_finite();
        (!(near || neither)).then(|| format!("element {d} is {x} by `decode`, and {} by `linear`", product + zero))
    };
    (0..row.len()).find_map(differs)
}
