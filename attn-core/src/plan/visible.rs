//! Which keys a tile of rows may attend to: all but a prefix and a suffix that a mask is proven to skip, or those of a list.

use std::ops::Range;

use super::rows::RowTile;
use crate::{
    batch::Layout,
    expr::Variant,
    lang::{Hook, QueryTile, Tile, TileClass},
    spec::Heads,
};

/// The keys that a tile may attend to: `blocks` of `kv_align` keys each, of `keys` in all.
#[derive(Clone, Debug)]
pub(super) struct Visible {
    pub(super) keys: u64,
    pub(super) blocks: Range<u64>,
}

/// The keys of a tile's request that `classify` does not prove skipped.
pub(super) fn visible(layout: &Layout, rows: QueryTile, align: u64, classify: &dyn Fn(Tile) -> TileClass) -> Visible {
    let (keys, first_key) = (rows.kv_len as u64, layout.kv_indptr()[rows.batch as usize]);
    let part = |keys: Range<u64>| Tile {
        rows,
        kv_pos_min: keys.start as i32,
        kv_pos_max: keys.end as i32 - 1,
        kv_token_min: first_key + keys.start as i32,
        kv_token_max: first_key + keys.end as i32 - 1,
    };
    let skipped = |blocks: Range<u64>| {
        let keys = blocks.start * align..(blocks.end * align).min(keys);
        keys.is_empty() || classify(part(keys)) == TileClass::Skip
    };
    Visible { keys, blocks: visible_blocks(keys.div_ceil(align), &skipped) }
}

/// A variant and the heads that it is planned for.
#[derive(Clone, Copy)]
pub(super) struct Planned<'a> {
    pub(super) variant: &'a Variant,
    pub(super) layout: &'a Layout,
    pub(super) heads: Heads,
}

impl Planned<'_> {
    /// The keys of a tile, for every KV head: one list of work serves all of them.
    pub(super) fn visible(&self, tile: RowTile, align: u64) -> Visible {
        let (group, qo, kv) = (u64::from(self.heads.group()), self.heads.qo as i32, self.heads.kv as i32);
        let of = |qo, kv| tile.query_tile(self.layout, group, qo, kv);
        if !self.variant.has(Hook::KvRange) {
            // what is derived from a mask is right for any range of heads
            let rows = of([0, qo - 1], [0, kv - 1]);
            return visible(self.layout, rows, align, &|tile| self.variant.tile_class_closely(tile));
        }
        // a `kv_range` may look at the first head of its tile alone
        let per_head = |kv_head: i32| of([kv_head * group as i32, (kv_head + 1) * group as i32 - 1], [kv_head; 2]);
        visible(self.layout, per_head(0), align, &|part| {
            let skips =
                |head| self.variant.tile_class_closely(Tile { rows: per_head(head), ..part }) == TileClass::Skip;
            if (0..kv).all(skips) { TileClass::Skip } else { TileClass::Partial }
        })
    }
}

/// The blocks that are left when the longest proven prefix and suffix are cut off.
///
/// Each cut is proven as a whole by one answer, so bisection is sound whatever the answers are; it finds the longest one
/// when a part of a skipped range is skipped too.
fn visible_blocks(blocks: u64, skipped: &dyn Fn(Range<u64>) -> bool) -> Range<u64> {
    let begin = last_true(blocks, &|n| skipped(0..n));
    if begin == blocks {
        return 0..0;
    }
    let end = blocks - last_true(blocks - begin, &|n| skipped(blocks - n..blocks));
    if begin < end { begin..end } else { 0..0 }
}

/// The largest `n <= max` with `holds(n)`, where `holds(0)` is given, found by bisection.
pub(super) fn last_true(max: u64, holds: &dyn Fn(u64) -> bool) -> u64 {
    if max == 0 || holds(max) {
        return max;
    }
    let (mut yes, mut no) = (0, max); // `holds(yes)`, not `holds(no)`
    while no - yes > 1 {
        let mid = yes + (no - yes) / 2;
        if holds(mid) { yes = mid } else { no = mid }
    }
    yes
}
