//! Cuts the rows of a batch into tiles, and decides which requests share a tile.

use std::ops::Range;

use super::{
    CascadePolicy, MERGE_ROWS, MixedRule,
    tile::{MergeUnit, MixedTile, Part, TileRows},
    visible::SegmentClassifier,
};
use crate::{
    batch::{Layout, Segment},
    plan::{
        Cost, PlanError, PlanRule,
        count::count_i32,
        q_tiles::QTile,
        visible::{VisibleBlockFinder, VisibleBlocks},
    },
};

/// Builds the tiles of a batch.
pub(super) struct TileCutter<'a> {
    pub(super) layout: &'a Layout,
    pub(super) rule: &'a MixedRule,
    pub(super) group: u32,
    pub(super) units: &'a mut Vec<MergeUnit>,
    /// `[requests + 1]`: first unit of each request.
    pub(super) first_unit_of: &'a mut Vec<u32>,
    pub(super) tiles: &'a mut Vec<MixedTile>,
}

impl TileCutter<'_> {
    /// Cuts the rows of all requests into units.
    pub(super) fn cut_rows(&mut self) -> Result<(), PlanError> {
        self.units.clear();
        self.first_unit_of.clear();
        self.tiles.clear();
        for request in 0..self.layout.batch() {
            self.first_unit_of.push(self.units.len() as u32);
            let packed = self.layout.qo_len(request) as u64 * u64::from(self.group);
            let packed = count_i32("PackGQA rows of one request", packed)? as u32;
            let tile_rows = self.rule_of(part_of(packed, self.rule)).tile_rows;
            for first in (0..packed).step_by(tile_rows as usize) {
                let end = packed.min(first.saturating_add(tile_rows));
                for first_row in (first..end).step_by(MERGE_ROWS as usize) {
                    let rows = (end - first_row).min(MERGE_ROWS);
                    self.units.push(MergeUnit { request: request as u32, first_row, rows });
                }
            }
        }
        self.first_unit_of.push(self.units.len() as u32);
        count_i32("PackGQA rows of a batch", self.layout.qo_tokens() as u64 * u64::from(self.group))?;
        count_i32("units of rows", self.units.len() as u64).map(|_| ())
    }

    pub(super) fn rule_of(&self, part: Part) -> &PlanRule {
        match part {
            Part::Decode => &self.rule.decode,
            Part::Prefill => &self.rule.prefill,
        }
    }

    /// The units of a range of requests.
    pub(super) fn units_of(&self, requests: &Range<usize>) -> Range<usize> {
        self.first_unit_of[requests.start] as usize..self.first_unit_of[requests.end] as usize
    }

    pub(super) fn packed_rows(&self, requests: &Range<usize>) -> u64 {
        let ends = self.layout.qo_indptr();
        (ends[requests.end] - ends[requests.start]) as u64 * u64::from(self.group)
    }

    /// Adds tiles, each with as many whole units as fit. All `requests` have the keys of the segment.
    fn add(
        &mut self,
        requests: &Range<usize>,
        part: Part,
        segment: Option<u32>,
        mut visible: impl FnMut(&TileRows) -> Option<VisibleBlocks>,
    ) {
        let tile_rows = self.rule_of(part).tile_rows;
        let units = self.units_of(requests);
        let mut first = units.start;
        while first < units.end {
            let (mut rows, mut next) = (0, first);
            while next < units.end && (next == first || rows + self.units[next].rows <= tile_rows) {
                rows += self.units[next].rows;
                next += 1;
            }
            let MergeUnit { request, first_row, .. } = self.units[first];
            let requests = self.units[next - 1].request - request + 1;
            let rows = TileRows { request, requests, first_row, rows };
            if let Some(visible) = visible(&rows) {
                let (unit, units) = (first as u32, (next - first) as u32);
                self.tiles.push(MixedTile { rows, part, segment, unit, units, visible, splits: 0, partial: -1 });
            }
            first = next;
        }
    }

    /// Adds the tiles of a batch without levels: each request on its own, against all of its keys. `finders` has a
    /// finder of each part, for each variant that runs the list.
    pub(super) fn add_flat(&mut self, mut finders: Vec<[VisibleBlockFinder<'_>; 2]>) {
        for request in 0..self.layout.batch() {
            let part = self.part_of_request(request);
            self.add(&(request..request + 1), part, None, |rows| {
                let &TileRows { request, first_row, rows, .. } = rows;
                let found = finders.iter_mut().map(|of| of[part as usize].find(QTile { request, first_row, rows }));
                found.reduce(VisibleBlocks::join)
            });
        }
    }

    /// Adds the tiles of a cascade, segment by segment.
    pub(super) fn add_segments(&mut self, classifier: &SegmentClassifier<'_>) {
        let layout = self.layout;
        for (index, segment) in layout.segments().iter().enumerate() {
            let all = segment.first_request..segment.first_request + segment.requests;
            if let Some(part) = self.shared_part(&all, segment) {
                self.add_segment(&all, part, index, classifier);
                continue;
            }
            for request in all {
                let of_one = request..request + 1;
                self.add_segment(&of_one, self.part_of_request(request), index, classifier);
            }
        }
        for request in (0..layout.batch()).filter(|&request| layout.kv_len(request) == 0) {
            let part = self.part_of_request(request);
            self.add(&(request..request + 1), part, None, |_| Some(VisibleBlocks { keys: 0, begin: 0, end: 0 }));
        }
    }

    /// Adds the tiles of some requests against one segment.
    fn add_segment(&mut self, requests: &Range<usize>, part: Part, index: usize, classifier: &SegmentClassifier<'_>) {
        let layout = self.layout;
        let ends =
            |request: u32| layout.segments_of(request as usize).next_back().is_some_and(|(last, _)| last == index);
        // rows without visible keys must be written too: by the tile that has the last keys of their request
        let is_last = |rows: &TileRows| (rows.request..rows.request + rows.requests).any(ends);
        let align = self.rule_of(part).kv_align;
        let segment = &layout.segments()[index];
        self.add(requests, part, Some(index as u32), |rows| {
            let visible = classifier.visible(rows, segment, align);
            (visible.blocks() > 0 || is_last(rows)).then_some(visible)
        });
    }

    pub(super) fn part_of_request(&self, request: usize) -> Part {
        part_of(self.packed_rows(&(request..request + 1)) as u32, self.rule)
    }

    /// The part in which all rows of a group run in shared tiles, or `None` if each request runs on its own.
    pub(super) fn shared_part(&self, requests: &Range<usize>, segment: &Segment) -> Option<Part> {
        let requests_with_queries = requests.clone().filter(|&request| self.layout.qo_len(request) > 0).count();
        if requests_with_queries < 2 || self.rule.cascade.policy == CascadePolicy::Never {
            return None;
        }
        let rows = self.packed_rows(requests);
        // a tile has whole units, so the largest unit must fit
        if self.rule.prefill.tile_rows < self.rule.decode.tile_rows.min(MERGE_ROWS) {
            return None;
        }
        let part = if rows <= self.rule.decode.tile_rows.into() { Part::Decode } else { Part::Prefill };
        let pays = || self.cascade_cost(requests, segment, part, rows) < self.flat_cost(requests, segment);
        (self.rule.cascade.policy == CascadePolicy::Always || pays()).then_some(part)
    }

    /// The cost of the group in shared tiles: the tiles, keys that are read for the first time, and one more partial
    /// state for each unit of rows.
    pub(super) fn cascade_cost(&self, requests: &Range<usize>, segment: &Segment, part: Part, rows: u64) -> u64 {
        let rule = self.rule_of(part);
        let tiles = rows.div_ceil(rule.tile_rows.into());
        let states = self.units_of(requests).len() as u64;
        let first = match part {
            Part::Decode => 0, // the cost of its blocks includes the first read
            Part::Prefill => blocks(segment, &self.rule.decode).saturating_mul(self.uncached_cost()),
        };
        tiles_cost(rule.cost, tiles, blocks(segment, rule))
            .saturating_add(states.saturating_mul(self.rule.cascade.state.into()))
            .saturating_add(first)
    }

    /// The cost if each request reads the segment itself. The keys lengthen tiles that exist anyway. The first request
    /// reads them from device memory, the others from the L2 cache.
    pub(super) fn flat_cost(&self, requests: &Range<usize>, segment: &Segment) -> u64 {
        let costs = requests.clone().map(|request| {
            let (packed, part) = (self.packed_rows(&(request..request + 1)), self.part_of_request(request));
            let rule = self.rule_of(part);
            let block = match part {
                Part::Decode => self.rule.cascade.cached_block.min(rule.cost.block),
                Part::Prefill => rule.cost.block,
            };
            let tiles = packed.div_ceil(rule.tile_rows.into());
            tiles.saturating_mul(segment.kv_len as u64).saturating_mul(block.into()) / u64::from(rule.kv_align)
        });
        let first = blocks(segment, &self.rule.decode).saturating_mul(self.uncached_cost());
        costs.fold(first, u64::saturating_add)
    }

    /// The extra cost of a block whose keys come from device memory instead of the L2 cache.
    fn uncached_cost(&self) -> u64 {
        self.rule.decode.cost.block.saturating_sub(self.rule.cascade.cached_block).into()
    }
}

/// Blocks of a segment under the rule of a part.
pub(super) fn blocks(segment: &Segment, rule: &PlanRule) -> u64 {
    u64::from((segment.kv_len as u32).div_ceil(rule.kv_align))
}

fn tiles_cost(cost: Cost, tiles: u64, blocks: u64) -> u64 {
    let each = u64::from(cost.item).saturating_add(blocks.saturating_mul(cost.block.into()));
    tiles.saturating_mul(each)
}

/// The part of a request with `packed` PackGQA rows.
fn part_of(packed: u32, rule: &MixedRule) -> Part {
    if packed <= rule.decode.tile_rows { Part::Decode } else { Part::Prefill }
}
