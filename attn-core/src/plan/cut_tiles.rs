//! Cuts the rows of a batch into merge units and Q tiles.

use super::error::count_i32;
use super::rule::{DECODE, PREFILL};
use super::tile::{MergeUnit, QTile, TileRows};
use super::{ListRule, MERGE_ROWS, PlanError};
use crate::batch::Layout;

/// Cuts a batch under a rule.
pub(super) struct TileCutter<'a> {
    pub(super) layout: &'a Layout,
    pub(super) rule: &'a ListRule,
    pub(super) group: u32,
    /// Units of a mixed list.
    pub(super) units: &'a mut Vec<MergeUnit>,
    /// With levels `[requests + 1]`: first unit of each request.
    pub(super) first_unit_of: &'a mut Vec<u32>,
    pub(super) tiles: &'a mut Vec<QTile>,
}

impl TileCutter<'_> {
    /// Cuts the rows of all requests into tiles, and for a mixed list into units. With `queries`, a tile has rows of
    /// only one run of that many consecutive queries, which share a key list.
    pub(super) fn cut_rows(&mut self, queries: Option<u64>) -> Result<(), PlanError> {
        self.units.clear();
        self.first_unit_of.clear();
        self.tiles.clear();
        let (layout, group) = (self.layout, u64::from(self.group));
        let run = queries.map_or(u32::MAX, |queries| (queries * group).clamp(1, u32::MAX.into()) as u32);
        let tile_rows = [DECODE, PREFILL].map(|part| self.rule.of_part(part).tile_rows);
        // a flat list has one part
        let (is_mixed, decode_rows) = match self.rule {
            ListRule::Flat(_) => (false, u32::MAX),
            ListRule::Mixed(rule) => (true, rule.decode.tile_rows),
        };
        let rows = layout.qo_tokens() as u64 * group;
        count_i32("PackGQA rows of one request", layout.max_qo_len() as u64 * group)?;
        // a lower bound, before memory is taken for the tiles
        count_i32("query tiles", rows / u64::from(tile_rows[0].max(tile_rows[1]).min(run)))?;
        if layout.has_levels() {
            count_i32("PackGQA rows of a batch", rows)?;
        }
        for (request, ends) in (0u32..).zip(layout.qo_indptr().windows(2)) {
            if layout.has_levels() {
                self.first_unit_of.push(self.units.len() as u32);
            }
            let packed = (ends[1] - ends[0]) as u32 * self.group;
            let part = u32::from(packed > decode_rows);
            let mut first_row = 0;
            while first_row < packed {
                let of_run = if packed <= run { packed } else { run - first_row % run };
                let rows = (packed - first_row).min(tile_rows[part as usize]).min(of_run);
                let tile = QTile::new(TileRows { request, requests: 1, first_row, rows }, request, part);
                if is_mixed {
                    self.add_units(tile);
                } else {
                    self.tiles.push(tile);
                }
                first_row += rows;
            }
        }
        if layout.has_levels() {
            self.first_unit_of.push(self.units.len() as u32);
        }
        count_i32("query tiles", self.tiles.len().max(self.units.len()) as u64).map(|_| ())
    }

    /// Cuts a tile of a mixed list into units. With levels, tiles are cut again for each segment.
    fn add_units(&mut self, tile: QTile) {
        let TileRows { request, first_row, rows, .. } = tile.rows;
        let unit = self.units.len() as u32;
        self.units.extend((0..rows).step_by(MERGE_ROWS as usize).map(|added| {
            let rows = (rows - added).min(MERGE_ROWS);
            MergeUnit { request, first_row: first_row + added, rows, states: 0, merged: false }
        }));
        if !self.layout.has_levels() {
            self.tiles.push(QTile { units: [unit, self.units.len() as u32 - unit], ..tile });
        }
    }

    /// Repeats the tiles for each further branch of a union, branch by branch.
    pub(super) fn repeat_for(&mut self, branches: usize) {
        for branch in 1..branches {
            let count = self.tiles.len() / branch;
            self.tiles.extend_from_within(..count);
            self.tiles[branch * count..].iter_mut().for_each(|tile| tile.part = branch as u32);
        }
    }
}
