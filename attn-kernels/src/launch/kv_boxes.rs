//! TMA boxes of K and V.

use crate::kernel_traits::KernelTraits;

/// Rows after which the swizzle pattern repeats; boxes have a multiple of them.
const PATTERN_ROWS: u32 = 8;

/// Keys of a box of K and V in sm90 prefill: the most that divide a KV tile, a page, and a block of the KV list; `None`
/// for keys without pages or a list. Of listed keys a power of two, or a tile. 0: boxes do not fit, and rows are loaded
/// one by one.
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
    let tile_keys = traits.facts().tile_keys;
    let rows = [page_size, list_block].into_iter().flatten().fold(tile_keys, common);
    // a box of listed keys is found by a shift (`box_of_row` in `prefill/sm90/listed_keys.cuh`)
    let rows = if list_block.is_some() && rows < tile_keys { 1 << rows.trailing_zeros() } else { rows };
    if rows.is_multiple_of(PATTERN_ROWS) { rows } else { 0 }
}

#[cfg(test)]
mod tests {
    use attn_core::{dtype::Dtypes, spec::KernelKind};

    use super::*;
    use crate::{compile::Arch, kernel_traits::KernelTraitsRequest};

    #[test]
    fn boxes_divide_tiles_pages_and_blocks_and_of_lists_are_powers_of_two() {
        let prefill = |head_dim| {
            let of = KernelTraitsRequest::new(KernelKind::Prefill, head_dim, Dtypes::bf16(), Arch::for_device(9, 0));
            KernelTraits::choose(&of).expect("a kernel")
        };
        let rows = |head_dim, page, block| box_rows(&prefill(head_dim), page, block);
        // tiles of 128 and of 80 keys
        assert_eq!([rows(128, None, None), rows(256, None, None)], [128, 80]);
        assert_eq!([16, 40, 4].map(|page| rows(256, Some(page), None)), [16, 40, 0]);
        assert_eq!([64, 48, 256, 1].map(|block| rows(128, None, Some(block))), [64, 16, 128, 0]);
        assert_eq!([80, 40, 48, 20].map(|block| rows(256, None, Some(block))), [80, 8, 16, 0]);
        assert_eq!(rows(128, Some(16), Some(64)), 16);
    }
}
