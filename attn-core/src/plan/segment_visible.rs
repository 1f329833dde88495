//! Which keys of a segment the rows of several requests may attend to.

use std::ops::Range;

use super::search::last_true;
use super::tile::{TileRows, VisibleBlocks, all_heads};
use crate::batch::{KvSegment, Layout};
use crate::expr::{TileClassifier, tile_of};
use crate::lang::{QueryTile, Tile, TileClass};
use crate::spec::Heads;

/// Classifies tiles of rows of several requests. A tile class holds for one request, so that requests are classified
/// one by one.
pub(super) struct SegmentClassifier<'a> {
    pub(super) layout: &'a Layout,
    /// Classifiers of the variant, and of others that run the same list.
    pub(super) classifiers: Vec<TileClassifier<'a>>,
    pub(super) heads: Heads,
}

impl SegmentClassifier<'_> {
    /// The blocks of a segment, of `align` keys from its first key on, that some of the rows may attend to: all except
    /// a prefix and a suffix that are proven skipped for every request under every variant.
    pub(super) fn visible(&self, rows: &TileRows, segment: &KvSegment, align: u32) -> VisibleBlocks {
        let keys = segment.keys as u32;
        let all = VisibleBlocks::all(keys, align);
        if self.is_unmasked() {
            return all;
        }
        let mut visible = VisibleBlocks { keys, begin: 0, end: 0 };
        for (request, rows) in self.requests(rows) {
            for classifier in &self.classifiers {
                let skips = |blocks: Range<u64>| {
                    let key = |block: u64| segment.kv_begin + (block * u64::from(align)).min(keys.into()) as i32;
                    self.class(classifier, request, rows, key(blocks.start)..key(blocks.end)) == TileClass::Skip
                };
                let blocks = u64::from(all.end);
                if !skips(0..blocks) {
                    let begin = last_true(blocks - 1, &|n| n == 0 || skips(0..n));
                    let end = blocks - last_true(blocks - begin - 1, &|n| n == 0 || skips(blocks - n..blocks));
                    visible = visible.join(VisibleBlocks { keys, begin: begin as u32, end: end as u32 });
                }
            }
        }
        visible
    }

    /// Whether no logit of the rows and these keys is masked, for every request under every variant.
    pub(super) fn is_full(&self, rows: &TileRows, keys: Range<i32>) -> bool {
        let full = |classifier, (request, rows)| self.class(classifier, request, rows, keys.clone()) == TileClass::Full;
        self.is_unmasked()
            || self.requests(rows).all(|rows| self.classifiers.iter().all(|classifier| full(classifier, rows)))
    }

    fn is_unmasked(&self) -> bool {
        self.classifiers.iter().all(|classifier| matches!(classifier, TileClassifier::Unmasked))
    }

    fn class(&self, classifier: &TileClassifier<'_>, request: usize, rows: QueryTile, keys: Range<i32>) -> TileClass {
        let tile: Tile = tile_of(rows, self.layout.kv_indptr()[request], keys);
        classifier.class(&tile)
    }

    /// The requests that have rows in the tile, and their rows.
    fn requests(&self, rows: &TileRows) -> impl Iterator<Item = (usize, QueryTile)> {
        let (all_heads, group) = (all_heads(self.heads), self.heads.group());
        rows.of_requests(self.layout, group)
            .map(move |tile| (tile.request as usize, tile.query_tile(self.layout, group, all_heads)))
    }
}
