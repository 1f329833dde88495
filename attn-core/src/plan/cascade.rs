//! Cuts the rows of a cascade into tiles, segment by segment.

use std::ops::Range;

use super::cascade_cost::CascadeModel;
use super::segment_visible::SegmentClassifier;
use super::tile::{MergeUnit, NO_KEYS, QTile, TileRows, VisibleBlocks};

/// Cuts a cascade whose rows are cut into units.
pub(super) struct SegmentCutter<'a> {
    pub(super) model: CascadeModel<'a>,
    pub(super) units: &'a [MergeUnit],
    /// `[requests + 1]`: first unit of each request.
    pub(super) first_unit_of: &'a [u32],
    pub(super) tiles: &'a mut Vec<QTile>,
}

impl SegmentCutter<'_> {
    /// Adds the tiles of all segments, and of requests without keys.
    pub(super) fn add_segments(&mut self, classifier: &SegmentClassifier<'_>) {
        let layout = self.model.layout;
        for (index, segment) in layout.segments().iter().enumerate() {
            let all = segment.requests();
            if let Some(part) = self.model.shared_part(&all, segment) {
                self.add_segment(&all, part, index, classifier);
                continue;
            }
            for request in all {
                self.add_segment(&(request..request + 1), self.model.part_of_request(request), index, classifier);
            }
        }
        for request in (0..layout.batch()).filter(|&request| layout.kv_len(request) == 0) {
            let part = self.model.part_of_request(request);
            self.add(&(request..request + 1), part, NO_KEYS, |_| Some(VisibleBlocks::default()));
        }
    }

    /// Adds the tiles of some requests against one segment.
    fn add_segment(&mut self, requests: &Range<usize>, part: u32, index: usize, classifier: &SegmentClassifier<'_>) {
        let layout = self.model.layout;
        let ends =
            |request: u32| layout.segments_of(request as usize).next_back().is_some_and(|(last, _)| last == index);
        // rows without visible keys must be written too: by the tile that has the last keys of their request
        let is_last = |rows: &TileRows| (rows.request..rows.request + rows.requests).any(ends);
        let align = self.model.rule.of_part(part).kv_align;
        let segment = &layout.segments()[index];
        self.add(requests, part, index as u32, |rows| {
            let visible = classifier.visible(rows, segment, align);
            (visible.blocks() > 0 || is_last(rows)).then_some(visible)
        });
    }

    /// Adds tiles, each with as many whole units as fit. All `requests` have the keys of the segment.
    fn add(
        &mut self,
        requests: &Range<usize>,
        part: u32,
        segment: u32,
        mut visible: impl FnMut(&TileRows) -> Option<VisibleBlocks>,
    ) {
        let tile_rows = self.model.rule.of_part(part).tile_rows;
        let (mut first, end) = (self.first_unit_of[requests.start] as usize, self.first_unit_of[requests.end] as usize);
        while first < end {
            let (mut rows, mut next) = (0, first);
            while next < end && (next == first || rows + self.units[next].rows <= tile_rows) {
                rows += self.units[next].rows;
                next += 1;
            }
            let MergeUnit { request, first_row, .. } = self.units[first];
            let rows = TileRows { request, requests: self.units[next - 1].request - request + 1, first_row, rows };
            if let Some(visible) = visible(&rows) {
                let units = [first as u32, (next - first) as u32];
                self.tiles.push(QTile { visible, units, ..QTile::new(rows, segment, part) });
            }
            first = next;
        }
    }
}
