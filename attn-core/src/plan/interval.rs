//! Guesses the interval of visible keys of a single query from the interval of the previous query.
//!
//! Under most masks the queries of a decode step see the same keys relative to their position: all of them, or the last
//! `n`. Two tile classes then prove the guess: the keys before the interval are skipped, and the keys within it are
//! full. A guess is only used when both are proven, so a wrong guess costs time and never correctness.

use std::ops::Range;

use super::search::last_true;
use crate::expr::TileClassifier;
use crate::lang::{QueryTile, Tile, TileClass};

/// The interval of the last query, as a guess for the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IntervalGuess {
    last: Option<Offsets>,
    /// Consecutive misses: wrong guesses, and visible keys that form no interval.
    misses: u32,
}

/// Key offsets relative to the position of the query.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    /// First key; `None`: the first key of the request.
    from: Option<i64>,
    /// One past the last key; `None`: the end of the request.
    to: Option<i64>,
}

/// Guessing stops after this many consecutive misses.
const MAX_MISSES: u32 = 4;

/// The keys of one query, with the classifier for ranges of them.
pub(super) struct QueryKeys<'a> {
    classifier: &'a TileClassifier<'a>,
    /// The query; the key range is overwritten by every class that is asked for.
    tile: Tile,
    first_key: i32,
    count: u32,
}

impl<'a> QueryKeys<'a> {
    /// `count` keys of a request; `first_key` is the index of its first key among packed keys.
    pub(super) fn new(classifier: &'a TileClassifier<'a>, rows: QueryTile, first_key: i32, count: u32) -> Self {
        QueryKeys { classifier, tile: Tile { rows, ..Tile::default() }, first_key, count }
    }

    /// Whether a range of keys is proven to be of a class; true for an empty range.
    fn all(&mut self, keys: Range<u32>, class: TileClass) -> bool {
        if keys.is_empty() {
            return true;
        }
        let (first, last) = (keys.start as i32, keys.end as i32 - 1);
        (self.tile.kv_pos_min, self.tile.kv_pos_max) = (first, last);
        (self.tile.kv_token_min, self.tile.kv_token_max) = (self.first_key + first, self.first_key + last);
        self.classifier.class(&self.tile) == class
    }

    /// The largest `n` up to `most` for which the keys `range(n)` are proven skipped.
    fn most_skipped(&self, most: u32, range: impl Fn(u32) -> Range<u32>) -> u32 {
        let skipped = |n: u64| QueryKeys { ..*self }.all(range(n as u32), TileClass::Skip);
        last_true(most.into(), &skipped) as u32
    }
}

impl IntervalGuess {
    /// The visible keys, if the guess is proven right.
    pub(super) fn guess(&mut self, keys: &mut QueryKeys<'_>) -> Option<Range<u32>> {
        let Offsets { from, to } = self.last?;
        let (count, pos) = (keys.count, i64::from(keys.tile.rows.qo_pos_min));
        let key = |offset: i64| (pos + offset).clamp(0, count.into()) as u32;
        let (begin, end) = (from.map_or(0, key), to.map_or(count, key));
        if begin >= end {
            return None;
        }
        let right = keys.all(begin..end, TileClass::Full)
            && keys.all(0..begin, TileClass::Skip)
            && keys.all(end..count, TileClass::Skip);
        if right {
            self.misses = 0;
            return Some(begin..end);
        }
        self.miss();
        None
    }

    /// Refines the visible blocks `left` to single keys, and remembers them if they form an interval.
    pub(super) fn learn(&mut self, keys: &mut QueryKeys<'_>, left: Range<u32>, align: u32) {
        if self.misses >= MAX_MISSES || left.is_empty() {
            return;
        }
        let count = keys.count;
        let inside = (left.end - left.start - 1).min(align - 1);
        let begin = left.start + keys.most_skipped(inside, |n| 0..left.start + n);
        let inside = (left.end - begin - 1).min(align - 1);
        let end = left.end - keys.most_skipped(inside, |n| left.end - n..count);
        if keys.all(begin..end, TileClass::Full) {
            let offset = |key: u32| i64::from(key) - i64::from(keys.tile.rows.qo_pos_min);
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
