//! Which keys a tile of rows may attend to: all but a prefix and a suffix that a mask is proven to skip, or those of a list.
//!
//! The class of the whole span answers most of the time. Where it does not, both ends are found by looking at prefixes and suffixes, first
//! near where they were for the tile before. The block that stands at an end is then looked at closely, unless a logit of it is
//! seen to count; but not on a line ([`Schedule::Line`]). What is found there follows from the classes of prefixes and suffixes alone, whatever was
//! asked before: what is proven of keys is proven of fewer of them too. So a kernel that plans on a device finds the same by bisection
//! (attn-kernels/cuda/planner/visible.cuh).

use std::ops::Range;

use super::{
    PlanRule, Schedule,
    interval::{Intervals, Keys},
    mask::{End, Mask, keys_of},
    rows::RowTile,
    search::{last_true, last_true_near},
};
use crate::{
    batch::Layout,
    expr::Variant,
    lang::{QueryTile, Tile, TileClass},
    spec::Heads,
};

/// The keys that a tile may attend to: blocks `begin..end` of `kv_align` keys each, of `keys` in all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visible {
    pub(super) keys: u32,
    pub(super) begin: u32,
    pub(super) end: u32,
}

impl Visible {
    /// How many blocks.
    #[inline]
    pub(super) fn blocks(&self) -> u32 {
        self.end - self.begin
    }

    /// What either sees, and what lies between.
    pub(super) fn hull(self, other: Visible) -> Visible {
        match (self.blocks(), other.blocks()) {
            (_, 0) => self,
            (0, _) => other,
            _ => Visible {
                keys: self.keys.max(other.keys), // of lists, the longer
                begin: self.begin.min(other.begin),
                end: self.end.max(other.end),
            },
        }
    }
}

/// Finds the keys of tiles, one after the other.
pub(super) struct Finder<'a> {
    layout: &'a Layout,
    mask: Mask<'a>,
    group: u32,
    heads: [[i32; 2]; 2],
    align: u32,
    /// Whether what is found for a request may not depend on others.
    alone: bool,
    /// Whether blocks at the ends are looked at closely.
    closely: bool,
    /// The request of the tile before.
    request: u32,
    /// What keys single queries saw.
    intervals: Intervals,
    /// Where keys began and ended for the tile before; `None` where none was cut off.
    ends: [Option<Last>; 2],
}

/// Where keys began, or ended, for the tile before.
#[derive(Clone, Copy)]
struct Last {
    request: u32,
    block: u64,
    /// From the position of its first query to the first key, or of its last query to one past the last key.
    from: i64,
    /// Whether it was elsewhere for the tile before that.
    moved: bool,
}

impl Last {
    /// The block to look at first, for a query at `pos`: as far from it as before, unless the keys stay where they are. Half a block more is
    /// cut off rather than less: one answer then says that it is too much, and the next one how much it is.
    fn guess(self, span: &Span, end: End, pos: i32) -> u64 {
        if self.request == span.request && !self.moved {
            return self.block.min(span.blocks);
        }
        let at = (i64::from(pos) + self.from).max(0) as u64;
        let block = if end == End::Front { at.div_ceil(span.align) } else { at / span.align };
        block.min(span.blocks)
    }

    fn next(before: Option<Last>, span: &Span, block: u64, pos: i32) -> Last {
        let moved = before.is_none_or(|last| last.request != span.request || last.block != block);
        Last { request: span.request, block, from: (block * span.align) as i64 - i64::from(pos), moved }
    }
}

impl<'a> Finder<'a> {
    /// Of a function, which shall know the classes of tiles of all heads.
    pub(super) fn of_function(
        layout: &'a Layout,
        classify: &'a dyn Fn(Tile) -> TileClass,
        group: u32,
        rule: &PlanRule,
    ) -> Self {
        // the same list serves every head, however many there are
        let heads = [[0, i32::MAX]; 2];
        Finder::new(layout, Mask::Function(classify), group, heads, rule)
    }

    /// Of a variant: the keys for every KV head, since one list of work serves all of them.
    pub(super) fn of_variant(layout: &'a Layout, variant: &'a Variant, heads: Heads, rule: &PlanRule) -> Self {
        let (mask, group) = (Mask::of(variant, heads), heads.group());
        let heads = [[0, heads.qo as i32 - 1], [0, heads.kv as i32 - 1]];
        Finder::new(layout, mask, group, heads, rule)
    }

    fn new(layout: &'a Layout, mask: Mask<'a>, group: u32, heads: [[i32; 2]; 2], rule: &PlanRule) -> Self {
        let alone = matches!(rule.schedule, Schedule::Fixed { .. });
        let closely = !matches!(rule.schedule, Schedule::Line);
        let (align, intervals) = (rule.kv_align, Intervals::default());
        Finder { layout, mask, group, heads, align, alone, closely, intervals, ends: [None; 2], request: 0 }
    }

    /// The keys of a tile.
    pub(super) fn find(&mut self, tile: RowTile) -> Visible {
        let keys = self.layout.kv_len(tile.request as usize) as u32;
        let seen = if keys == 0 || matches!(self.mask, Mask::None) { 0..keys } else { self.look(tile, keys) };
        Visible { keys, begin: seen.start / self.align, end: seen.end.div_ceil(self.align) }
    }

    /// The keys that a tile sees, in whole blocks or closer.
    fn look(&mut self, tile: RowTile, keys: u32) -> Range<u32> {
        if self.alone && tile.request != self.request {
            (self.ends, self.intervals) = ([None; 2], Intervals::default());
        }
        self.request = tile.request;
        let [qo_heads, kv_heads] = self.heads;
        let rows = tile.query_tile(self.layout, self.group, qo_heads, kv_heads);
        let first_key = self.layout.kv_indptr()[tile.request as usize];
        let one_query = rows.qo_row_min == rows.qo_row_max && !matches!(self.mask, Mask::ByHead { .. });
        if one_query && let Some(keys) = self.intervals.guess(&mut Keys::new(&self.mask, rows, first_key, keys)) {
            return keys;
        }
        let align = u64::from(self.align);
        let span = Span {
            request: tile.request,
            rows,
            keys: keys.into(),
            blocks: u64::from(keys).div_ceil(align),
            align,
            first_key,
        };
        let class = match self.ends {
            [None, None] => self.mask.class(&span.tile(0..span.blocks)),
            // most likely it is as for the tile before
            _ => TileClass::Partial,
        };
        match class {
            TileClass::Skip => 0..0,
            TileClass::Full => 0..keys,
            TileClass::Partial => {
                let left = self.trimmed(&span);
                let left = (left.start * align) as u32..(left.end * align).min(keys.into()) as u32;
                if one_query {
                    let of = &mut Keys::new(&self.mask, rows, first_key, keys);
                    self.intervals.learn(of, left.clone(), self.align);
                }
                left
            }
        }
    }

    /// The blocks that are left when the longest proven prefix and suffix are cut off.
    fn trimmed(&mut self, span: &Span) -> Range<u64> {
        let (blocks, first, last) = (span.blocks, span.rows.qo_pos_min, span.rows.qo_pos_max);
        let [front, back] = self.ends;
        let guess = front.map_or(0, |front| front.guess(span, End::Front, first));
        let begin = self.cut(span, End::Front, blocks, guess);
        if begin == blocks {
            return 0..0;
        }
        let guess = back.map_or(0, |back| blocks - back.guess(span, End::Back, last));
        let end = blocks - self.cut(span, End::Back, blocks - begin, guess);
        if begin >= end {
            return 0..0;
        }
        self.ends = [
            (begin > 0).then(|| Last::next(front, span, begin, first)),
            (end < blocks).then(|| Last::next(back, span, end, last)),
        ];
        begin..end
    }

    /// How many blocks, up to `max`, are proven empty at one end; about `guess`.
    ///
    /// What is cut is proven as a whole by one answer (and what a close look adds, by another), so the result is sound whatever the
    /// answers are; it is the most there is when a part of what is proven empty is proven so too.
    fn cut(&self, span: &Span, end: End, max: u64, guess: u64) -> u64 {
        let tile = |n: Range<u64>| span.tile(span.counted(end, n));
        let skips = |n: u64| self.mask.class(&tile(0..n)) == TileClass::Skip;
        let counts = |n: u64| self.counts(span, end, span.counted(end, n..n + 1));
        let (cut, is_last) = last_true_near(max, guess, &skips, &counts);
        if is_last || !self.closely || cut == max || counts(cut) {
            return cut;
        }
        // bounds of all rows together say less than there is to prove
        let skips_closely = |n: u64| self.mask.class_closely(tile(cut..cut + n)) == TileClass::Skip;
        if !skips_closely(1) {
            return cut;
        }
        cut + 1 + last_true(max - cut - 1, &|n| skips_closely(1 + n))
    }

    /// Whether a logit of a block is seen that may count: then no class, however closely looked for, says that the block is empty.
    /// `end` is that at which the block stands, where the rows of that end are most likely to attend to it.
    fn counts(&self, span: &Span, end: End, block: Range<u64>) -> bool {
        let (rows, keys) = (span.rows, span.keys_of(block));
        let other = if end == End::Front { End::Back } else { End::Front };
        // the key of a row that is closest to its query
        let closest = |row: End| {
            let pos = if row == End::Front { rows.qo_pos_min } else { rows.qo_pos_max };
            pos.clamp(keys.start, keys.end - 1)
        };
        let outer = if end == End::Front { keys.start } else { keys.end - 1 };
        let may_count = |row, key| self.mask.may_count(rows, row, key, span.first_key);
        may_count(end, closest(end)) || may_count(other, closest(other)) || may_count(end, outer)
    }
}

/// The rows of a tile and all keys of their request, in blocks.
struct Span {
    request: u32,
    rows: QueryTile,
    keys: u64,
    blocks: u64,
    align: u64,
    /// The index into packed keys of the request's first one.
    first_key: i32,
}

impl Span {
    /// Blocks as counted from one end.
    fn counted(&self, end: End, blocks: Range<u64>) -> Range<u64> {
        match end {
            End::Front => blocks,
            End::Back => self.blocks - blocks.end..self.blocks - blocks.start,
        }
    }

    fn keys_of(&self, blocks: Range<u64>) -> Range<i32> {
        (blocks.start * self.align) as i32..(blocks.end * self.align).min(self.keys) as i32
    }

    fn tile(&self, blocks: Range<u64>) -> Tile {
        keys_of(self.rows, self.first_key, self.keys_of(blocks))
    }
}
