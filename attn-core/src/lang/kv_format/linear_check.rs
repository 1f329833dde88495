//! Whether a format decodes to what its linear codes say.

use super::{CodeValues, ErasedKvFormat, LinearCodes};
use crate::bits;

/// Why a format of rows of `dim` elements does not have these codes; `None` if it does. For each KV head a row of
/// arbitrary bytes is decoded both ways.
pub(super) fn mistake(
    linear: LinearCodes,
    format: &dyn ErasedKvFormat,
    dim: i32,
    kv_heads: Option<i64>,
) -> Option<String> {
    let (LinearCodes { bits, values, .. }, group) = (linear, linear.group_of(dim));
    let [code_bytes, side_bytes] = [format.code_bytes(dim), format.side_bytes(dim)].map(|n| n.max(0) as usize);
    if !linear.has_bits() || group <= 0 || code_bytes * 8 < dim as usize * bits as usize {
        return Some(format!(
            "`linear` says {values:?} codes of {bits} bits in groups of {group}, and a row has {code_bytes} bytes of \
            codes; whole numbers have 4 or 8 bits, e2m1 and levels 4, e4m3 8, and a group at least one element"
        ));
    }
    let level = |code| format.level_of(code);
    if values == CodeValues::Levels
        && let Some(code) =
            (0..16).find(|&code| !level(code).is_finite() || bits::f16_round(level(code)) != level(code))
    {
        return Some(format!(
            "`level({code})` is {}; levels are finite numbers of f16, as products take them",
            level(code)
        ));
    }
    let bytes = |count: usize, seed: usize| (0..count).map(|i| ((i + seed) * 97 % 251) as u8).collect::<Vec<u8>>();
    let mut row = vec![0.0; dim as usize];
    let differs = |head: i32| {
        let (codes, side) = (bytes(code_bytes, 3 + head as usize), bytes(side_bytes, 40 + head as usize));
        format.decode_row(&codes, &side, head, &mut row);
        row.iter().enumerate().find_map(|(d, &x)| {
            let g = d as i32 / group;
            let product = linear.value(&codes, d, level) * format.scale_of(&side, head, g);
            let zero = if linear.has_zero() { format.zero_of(&side, head, g) } else { 0.0 };
            // one of the two may be fused
            let near = (x - (product + zero)).abs() <= 1e-5 * (product.abs() + zero.abs());
            let neither = !x.is_finite() && !(product + zero).is_finite();
            let why = || {
                let sum = product + zero;
                format!("element {d} of KV head {head} is {x} by `decode`, and {sum} by `linear`")
            };
            (!(near || neither)).then(why)
        })
    };
    (0..kv_heads.map_or(1, |heads| heads.clamp(1, 1 << 16) as i32)).find_map(differs)
}
