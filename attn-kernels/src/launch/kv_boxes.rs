//! TMA boxes of K and V.

use crate::kernel_traits::KernelTraits;

/// Rows after which the swizzle pattern repeats; boxes have a multiple of them.
const PATTERN_ROWS: u32 = 8;
/// Keys of a box of K and V in sm90 prefill: the most that divide a KV tile, a page, and a block of the KV list; `None`
/// for keys without pages or a list. 0: boxes do not fit, and rows are loaded one by one.
#[must_use]
pub fn box_rows(traits: &KernelTraits, page_size: Option<u32>, list_block: Option<u32>) -> u32 {
    if traits.decodes_keys() {
        return 0;
    }
    let common = |mut a: u32, mut b: u32| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let rows = [page_size, list_block].into_iter().flatten().fold(traits.facts().tile_keys, common);
    if rows.is_multiple_of(PATTERN_ROWS) { rows } else { 0 }
}
