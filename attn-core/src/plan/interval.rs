//! Keys of a single query that are an interval, guessed from the query before.
//!
//! Under most masks, queries of a decode step see the same keys as seen from where they stand: all, or the last so many. Two answers then say
//! which blocks these are: that the keys before are skipped, and that the others all count. Both are proofs, so that a wrong guess costs time alone.

use std::ops::Range;

use super::{mask::Mask, search::last_true};
use crate::lang::{QueryTile, Tile, TileClass};

/// What is known of intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Intervals {
    last: Option<Offsets>,
    /// Guesses in a row that were wrong, and intervals that were none.
    misses: u32,
}

/// An interval as seen from the query.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    /// First key; `None`: the first of all.
    from: Option<i64>,
    /// One past the last key; `None`: of all.
    to: Option<i64>,
}

/// After so many misses no more intervals are looked for.
const MOST_MISSES: u32 = 4;

/// The keys of one query, and who knows the classes of some of them.
pub(super) struct Keys<'a> {
    mask: &'a Mask<'a>,
    /// The query; its keys are those that were asked for last.
    tile: Tile,
    first_key: i32,
    count: u32,
}

impl<'a> Keys<'a> {
    /// `count` keys of a request, whose first is so far into packed keys.
    pub(super) fn new(mask: &'a Mask<'a>, rows: QueryTile, first_key: i32, count: u32) -> Self {
        Keys { mask, tile: Tile { rows, ..Tile::default() }, first_key, count }
    }

    /// Whether all of some keys are proven to be of a class; of none, it is.
    fn all(&mut self, keys: Range<u32>, class: TileClass) -> bool {
        if keys.is_empty() {
            return true;
        }
        let (first, last) = (keys.start as i32, keys.end as i32 - 1);
        (self.tile.kv_pos_min, self.tile.kv_pos_max) = (first, last);
        (self.tile.kv_token_min, self.tile.kv_token_max) = (self.first_key + first, self.first_key + last);
        self.mask.class(&self.tile) == class
    }

    /// The most keys up to `most`, at least none, of which `range` says that they are skipped.
    fn most_skipped(&self, most: u32, range: impl Fn(u32) -> Range<u32>) -> u32 {
        let skipped = |n: u64| Keys { ..*self }.all(range(n as u32), TileClass::Skip);
        last_true(most.into(), &skipped) as u32
    }
}

impl Intervals {
    /// The keys, if they are as the guess says.
    pub(super) fn guess(&mut self, of: &mut Keys<'_>) -> Option<Range<u32>> {
        let Offsets { from, to } = self.last?;
        let (count, pos) = (of.count, i64::from(of.tile.rows.qo_pos_min));
        let key = |offset: i64| (pos + offset).clamp(0, count.into()) as u32;
        let (begin, end) = (from.map_or(0, key), to.map_or(count, key));
        if begin >= end {
            return None;
        }
        let right = of.all(begin..end, TileClass::Full)
            && of.all(0..begin, TileClass::Skip)
            && of.all(end..count, TileClass::Skip);
        if right {
            self.misses = 0;
            return Some(begin..end);
        }
        self.miss();
        None
    }

    /// Looks for an interval that begins and ends within `align` keys of the ends of what is left of them.
    pub(super) fn learn(&mut self, of: &mut Keys<'_>, left: Range<u32>, align: u32) {
        if self.misses >= MOST_MISSES || left.is_empty() {
            return;
        }
        let count = of.count;
        let inside = (left.end - left.start - 1).min(align - 1);
        let begin = left.start + of.most_skipped(inside, |n| 0..left.start + n);
        let inside = (left.end - begin - 1).min(align - 1);
        let end = left.end - of.most_skipped(inside, |n| left.end - n..count);
        if of.all(begin..end, TileClass::Full) {
            let offset = |key: u32| i64::from(key) - i64::from(of.tile.rows.qo_pos_min);
            let from = (begin > 0).then(|| offset(begin));
            self.last = Some(Offsets { from, to: (end < count).then(|| offset(end)) });
        } else {
            self.miss();
        }
    }

    fn miss(&mut self) {
        self.misses += 1;
        self.last = None;
    }
}
