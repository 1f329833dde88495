//! Which keys of a segment the rows of several requests may attend to.

use std::ops::Range;

use super::tiles::Rows;
use crate::{
    batch::{Layout, Segment},
    lang::{QueryTile, Tile, TileClass},
    plan::{
        mask::{Mask, keys_of},
        search::last_true,
        visible::Visible,
    },
    spec::Heads,
};

/// Asks about tiles of rows, request by request: classes of a tile are for one.
pub(super) struct Asker<'a> {
    pub(super) layout: &'a Layout,
    /// Of the variant, and of others that run the same list.
    pub(super) masks: Vec<Mask<'a>>,
    pub(super) heads: Heads,
}

impl Asker<'_> {
    /// The blocks of a segment, of `align` keys from its first one on, that some of the rows may attend to: all but those before the first and after the
    /// last that is not proven to be skipped by every request, under every mask.
    pub(super) fn seen(&self, rows: &Rows, segment: &Segment, align: u32) -> Visible {
        let keys = segment.kv_len as u32;
        let all = 0..keys.div_ceil(align);
        if self.masks_nothing() {
            return Visible { keys, begin: all.start, end: all.end };
        }
        let mut hull: Option<Range<u32>> = None;
        let asked = self.requests(rows).flat_map(|rows| self.masks.iter().map(move |mask| (mask, rows)));
        for (mask, (request, rows)) in asked {
            let skips = |blocks: Range<u64>| {
                let key = |block: u64| segment.kv_begin + (block * u64::from(align)).min(keys.into()) as i32;
                self.class(mask, request, rows, key(blocks.start)..key(blocks.end)) == TileClass::Skip
            };
            let blocks = u64::from(all.end);
            let begin = if skips(0..blocks) { blocks } else { last_true(blocks - 1, &|n| n == 0 || skips(0..n)) };
            if begin == blocks {
                continue;
            }
            let end = blocks - last_true(blocks - begin - 1, &|n| n == 0 || skips(blocks - n..blocks));
            let (begin, end) = (begin as u32, end as u32);
            hull = Some(hull.map_or(begin..end, |hull| hull.start.min(begin)..hull.end.max(end)));
        }
        let hull = hull.unwrap_or(0..0);
        Visible { keys, begin: hull.start, end: hull.end }
    }

    /// Whether every logit of the rows and these keys is proven to count.
    pub(super) fn full(&self, rows: &Rows, keys: Range<i32>) -> bool {
        let full = |mask, (request, rows)| self.class(mask, request, rows, keys.clone()) == TileClass::Full;
        self.masks_nothing() || self.requests(rows).all(|rows| self.masks.iter().all(|mask| full(mask, rows)))
    }

    fn masks_nothing(&self) -> bool {
        self.masks.iter().all(|mask| matches!(mask, Mask::None))
    }

    fn class(&self, mask: &Mask<'_>, request: usize, rows: QueryTile, keys: Range<i32>) -> TileClass {
        let tile: Tile = keys_of(rows, self.layout.kv_indptr()[request], keys);
        mask.class(&tile)
    }

    /// The requests that have rows, and the rows of each.
    fn requests(&self, rows: &Rows) -> impl Iterator<Item = (usize, QueryTile)> {
        let Heads { qo, kv, .. } = self.heads;
        let heads = ([0, qo as i32 - 1], [0, kv as i32 - 1]);
        let group = self.heads.group();
        rows.of_requests(self.layout, group)
            .map(move |tile| (tile.request as usize, tile.query_tile(self.layout, group, heads.0, heads.1)))
    }
}
