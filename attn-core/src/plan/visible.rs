//! Which blocks of keys a tile may attend to: all except a prefix and a suffix that the mask is proven to skip, or the
//! keys of a list.
//!
//! One class of the whole KV range decides most tiles. Otherwise prefixes and suffixes are bisected, starting near the
//! ends that the tile before had. The block at each end is then classified again with the refined class, unless one of
//! its logits may be attended. Stream-K ([`Schedule::StreamK`]) omits this second step.
//!
//! **Tile classes are monotone.** Proven for a range implies proven for every sub-range. Bisection is therefore valid,
//! and its result depends on the classes of prefixes and suffixes alone, not on where the search began. So the planner
//! kernel (attn-kernels/cuda/planner/visible.cuh), which bisects without hints, finds the same blocks.

use std::ops::Range;

use super::interval::{IntervalGuess, QueryKeys};
use super::search::{last_true, last_true_near};
use super::tile::{TileRows, VisibleBlocks, all_heads};
use super::{PlanRule, Schedule};
use crate::batch::Layout;
use crate::expr::{End, TileClassifier, Variant, tile_of};
use crate::lang::{QueryTile, Tile, TileClass};
use crate::spec::Heads;

/// Finds the visible blocks of tiles, one tile after the other.
pub(super) struct VisibleBlockFinder<'a> {
    layout: &'a Layout,
    classifier: TileClassifier<'a>,
    group: u32,
    heads: QueryTile,
    align: u32,
    /// Whether hints are reset between requests, so that the result for a request cannot depend on other requests.
    hints_per_request: bool,
    /// Whether the blocks at the ends are classified again with the refined class.
    refine: bool,
    /// Request of the previous tile.
    request: u32,
    /// The interval of keys of the previous single query.
    intervals: IntervalGuess,
    /// Where the visible keys of the previous tile began and ended; `None` where nothing was skipped.
    hints: [Option<CutHint>; 2],
}

/// Where the visible keys of the previous tile began, or ended: the hint for the next tile.
#[derive(Clone, Copy)]
struct CutHint {
    request: u32,
    block: u64,
    /// Key offset from the tile's first query to the first visible key, or from its last query to one past the last
    /// visible key.
    from: i64,
    /// Whether the block differed from the one before it.
    moved: bool,
}

impl CutHint {
    /// The block to test first for a query at `pos`: at the same offset from the query as before, or the same block if
    /// it did not move. The guess is rounded towards skipping more: one test then shows that it skips too much, and the
    /// next one by how much.
    fn guess(self, kv_range: &KvRange, end: End, pos: i32) -> u64 {
        if self.request == kv_range.request && !self.moved {
            return self.block.min(kv_range.blocks);
        }
        let at = (i64::from(pos) + self.from).max(0) as u64;
        let block = if end == End::Front { at.div_ceil(kv_range.align) } else { at / kv_range.align };
        block.min(kv_range.blocks)
    }

    fn next(before: Option<CutHint>, kv_range: &KvRange, block: u64, pos: i32) -> CutHint {
        let moved = before.is_none_or(|last| last.request != kv_range.request || last.block != block);
        CutHint { request: kv_range.request, block, from: (block * kv_range.align) as i64 - i64::from(pos), moved }
    }
}

impl<'a> VisibleBlockFinder<'a> {
    /// A finder for a variant: the keys that any KV head attends to, since one work list serves all heads.
    pub(super) fn new(layout: &'a Layout, variant: &'a Variant, heads: Heads, rule: &PlanRule) -> Self {
        VisibleBlockFinder {
            layout,
            classifier: TileClassifier::of(variant, heads),
            group: heads.group(),
            heads: all_heads(heads),
            align: rule.kv_align,
            hints_per_request: matches!(rule.schedule, Schedule::FixedSplit { .. }),
            refine: !matches!(rule.schedule, Schedule::StreamK),
            request: 0,
            intervals: IntervalGuess::default(),
            hints: [None; 2],
        }
    }

    /// A finder for a function that classifies tiles.
    #[cfg(test)]
    pub(super) fn of_function(self, classify: &'a dyn Fn(Tile) -> TileClass) -> Self {
        VisibleBlockFinder { classifier: TileClassifier::Function(classify), ..self }
    }

    /// The visible blocks of a tile.
    #[inline]
    pub(super) fn find(&mut self, tile: TileRows) -> VisibleBlocks {
        let keys = self.layout.kv_len(tile.request as usize) as u32;
        if keys == 0 || matches!(self.classifier, TileClassifier::Unmasked) {
            return VisibleBlocks::all(keys, self.align);
        }
        let visible = self.search(tile, keys);
        VisibleBlocks { keys, begin: visible.start / self.align, end: visible.end.div_ceil(self.align) }
    }

    /// The visible keys of a tile: whole blocks, or a tighter range.
    fn search(&mut self, tile: TileRows, keys: u32) -> Range<u32> {
        if self.hints_per_request && tile.request != self.request {
            (self.hints, self.intervals) = ([None; 2], IntervalGuess::default());
        }
        self.request = tile.request;
        let rows = tile.query_tile(self.layout, self.group, self.heads);
        let first_key = self.layout.kv_indptr()[tile.request as usize];
        let one_query = rows.qo_row_min == rows.qo_row_max && !matches!(self.classifier, TileClassifier::ByHead { .. });
        if one_query
            && let Some(keys) = self.intervals.guess(&mut QueryKeys::new(&self.classifier, rows, first_key, keys))
        {
            return keys;
        }
        let align = u64::from(self.align);
        let kv_range = KvRange {
            request: tile.request,
            rows,
            keys: keys.into(),
            blocks: u64::from(keys).div_ceil(align),
            align,
            first_key,
        };
        let class = match self.hints {
            [None, None] => self.classifier.class(&kv_range.tile(0..kv_range.blocks)),
            // the tile most likely resembles the one before
            _ => TileClass::Partial,
        };
        match class {
            TileClass::Skip => 0..0,
            TileClass::Full => 0..keys,
            TileClass::Partial => {
                let left = self.trim(&kv_range);
                let left = (left.start * align) as u32..(left.end * align).min(keys.into()) as u32;
                if one_query {
                    let of = &mut QueryKeys::new(&self.classifier, rows, first_key, keys);
                    self.intervals.learn(of, left.clone(), self.align);
                }
                left
            }
        }
    }

    /// The blocks that remain after the longest proven prefix and suffix are skipped.
    fn trim(&mut self, kv_range: &KvRange) -> Range<u64> {
        let (blocks, first, last) = (kv_range.blocks, kv_range.rows.qo_pos_min, kv_range.rows.qo_pos_max);
        let [front, back] = self.hints;
        let guess = front.map_or(0, |front| front.guess(kv_range, End::Front, first));
        let begin = self.skipped_blocks(kv_range, End::Front, blocks, guess);
        if begin == blocks {
            return 0..0;
        }
        let guess = back.map_or(0, |back| blocks - back.guess(kv_range, End::Back, last));
        let end = blocks - self.skipped_blocks(kv_range, End::Back, blocks - begin, guess);
        if begin >= end {
            return 0..0;
        }
        self.hints = [
            (begin > 0).then(|| CutHint::next(front, kv_range, begin, first)),
            (end < blocks).then(|| CutHint::next(back, kv_range, end, last)),
        ];
        begin..end
    }

    /// The number of blocks, up to `max`, that are proven skipped at one end; the search starts at `guess`.
    ///
    /// One class proves the whole skipped range (a refined class may extend it), so the result is sound for any
    /// classifier. Since tile classes are monotone it is also the largest such number.
    fn skipped_blocks(&self, kv_range: &KvRange, end: End, max: u64, guess: u64) -> u64 {
        let tile = |n: Range<u64>| kv_range.tile(kv_range.counted(end, n));
        let skips = |n: u64| self.classifier.class(&tile(0..n)) == TileClass::Skip;
        let may_attend = |n: u64| self.may_attend(kv_range, end, kv_range.counted(end, n..n + 1));
        let (cut, is_last) = last_true_near(max, guess, &skips, &may_attend);
        if is_last || !self.refine || cut == max || may_attend(cut) {
            return cut;
        }
        // bounds over all rows of the tile prove less than the refined class can
        let skips_refined = |n: u64| self.classifier.refined_class(tile(cut..cut + n)) == TileClass::Skip;
        if !skips_refined(1) {
            return cut;
        }
        cut + 1 + last_true(max - cut - 1, &|n| skips_refined(1 + n))
    }

    /// Whether a block has a logit that is not proven masked: then no class, refined or not, proves the block skipped.
    /// Tests at most three logits. `end` is the end of the KV range at which the block is; the rows at that end are the
    /// most likely to attend to it.
    fn may_attend(&self, kv_range: &KvRange, end: End, block: Range<u64>) -> bool {
        let (rows, keys) = (kv_range.rows, kv_range.tile_of(block));
        let other = if end == End::Front { End::Back } else { End::Front };
        // the key closest to the query of a row
        let closest = |row: End| {
            let pos = if row == End::Front { rows.qo_pos_min } else { rows.qo_pos_max };
            pos.clamp(keys.start, keys.end - 1)
        };
        let outer = if end == End::Front { keys.start } else { keys.end - 1 };
        let may_attend = |row, key| self.classifier.may_attend(rows, row, key, kv_range.first_key);
        may_attend(end, closest(end)) || may_attend(other, closest(other)) || may_attend(end, outer)
    }
}

/// The rows of a tile and all keys of their request, in blocks.
struct KvRange {
    request: u32,
    rows: QueryTile,
    keys: u64,
    blocks: u64,
    align: u64,
    /// Index of the request's first key among packed keys.
    first_key: i32,
}

impl KvRange {
    /// Converts blocks that are counted from one end.
    fn counted(&self, end: End, blocks: Range<u64>) -> Range<u64> {
        match end {
            End::Front => blocks,
            End::Back => self.blocks - blocks.end..self.blocks - blocks.start,
        }
    }

    fn tile_of(&self, blocks: Range<u64>) -> Range<i32> {
        (blocks.start * self.align) as i32..(blocks.end * self.align).min(self.keys) as i32
    }

    fn tile(&self, blocks: Range<u64>) -> Tile {
        tile_of(self.rows, self.first_key, self.tile_of(blocks))
    }
}
