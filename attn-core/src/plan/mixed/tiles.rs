//! Rows that run together, and the units of rows that are merged together.

use std::ops::Range;

use super::{MERGE_ROWS, MixedRule, Sharing, seen::Asker};
use crate::{
    batch::{Layout, Segment},
    plan::{
        Cost, PlanError, PlanRule,
        rows::{RowTile, count_i32},
        visible::{Finder, Visible},
    },
};

/// Rows of one request, or of several neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// The first request.
    pub(super) request: u32,
    /// Requests, to the last that has rows here.
    pub(super) requests: u32,
    /// Packed, counted from the first row of `request`.
    pub(super) first_row: u32,
    pub(super) rows: u32,
}

/// The two parts of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Decode,
    Prefill,
}

/// Rows against the keys of a segment, or of their request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    pub(super) rows: Rows,
    pub(super) part: Part,
    /// Index into the layout's segments; `None`: all keys of the request.
    pub(super) segment: Option<u32>,
    /// The first of the units that the rows are, and how many.
    pub(super) unit: u32,
    pub(super) units: u32,
    pub(super) seen: Visible,
    /// Items that it is cut into.
    pub(super) pieces: u32,
    /// Partial row of the first row of the next piece; -1: it writes the output.
    pub(super) partial: i32,
}

/// Up to [`MERGE_ROWS`] rows of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub(super) request: u32,
    pub(super) first_row: u32,
    pub(super) rows: u32,
}

impl Rows {
    /// Rows that are a part of a request.
    pub(super) fn of_requests(&self, layout: &Layout, group: u32) -> impl Iterator<Item = RowTile> {
        let (mut first, mut left) = (self.first_row, self.rows);
        let requests = self.request..self.request + self.requests;
        requests.filter_map(move |request| {
            let packed = layout.qo_len(request as usize) as u32 * group;
            let rows = packed.saturating_sub(first).min(left);
            let tile = RowTile { request, first_row: first, rows };
            first = first.saturating_sub(packed);
            left -= rows;
            (rows > 0).then_some(tile)
        })
    }
}

impl From<RowTile> for Rows {
    fn from(RowTile { request, first_row, rows }: RowTile) -> Self {
        Rows { request, requests: 1, first_row, rows }
    }
}

/// The tiles of a batch, in the making.
pub(super) struct Tiles<'a> {
    pub(super) layout: &'a Layout,
    pub(super) rule: &'a MixedRule,
    pub(super) group: u32,
    pub(super) units: &'a mut Vec<Unit>,
    /// `[requests + 1]`: the first unit of each.
    pub(super) unit_of: &'a mut Vec<u32>,
    pub(super) tiles: &'a mut Vec<Tile>,
}

impl Tiles<'_> {
    /// Cuts the rows of all requests into units.
    pub(super) fn cut_rows(&mut self) -> Result<(), PlanError> {
        self.units.clear();
        self.unit_of.clear();
        self.tiles.clear();
        for request in 0..self.layout.batch() {
            self.unit_of.push(self.units.len() as u32);
            let packed = self.layout.qo_len(request) as u64 * u64::from(self.group);
            let packed = count_i32("packed rows of one request", packed)? as u32;
            let tile_rows = self.rule_of(part_of(packed, self.rule)).tile_rows;
            for first in (0..packed).step_by(tile_rows as usize) {
                let end = packed.min(first.saturating_add(tile_rows));
                for first_row in (first..end).step_by(MERGE_ROWS as usize) {
                    let rows = (end - first_row).min(MERGE_ROWS);
                    self.units.push(Unit { request: request as u32, first_row, rows });
                }
            }
        }
        self.unit_of.push(self.units.len() as u32);
        count_i32("packed rows of a batch", self.layout.qo_tokens() as u64 * u64::from(self.group))?;
        count_i32("units of rows", self.units.len() as u64).map(|_| ())
    }

    pub(super) fn rule_of(&self, part: Part) -> &PlanRule {
        match part {
            Part::Decode => &self.rule.decode,
            Part::Prefill => &self.rule.prefill,
        }
    }

    /// The units of some requests.
    pub(super) fn units_of(&self, requests: &Range<usize>) -> Range<usize> {
        self.unit_of[requests.start] as usize..self.unit_of[requests.end] as usize
    }

    pub(super) fn packed(&self, requests: &Range<usize>) -> u64 {
        let ends = self.layout.qo_indptr();
        (ends[requests.end] - ends[requests.start]) as u64 * u64::from(self.group)
    }

    /// Adds tiles of whole units, of as many as fit. `requests` all have the keys of the segment.
    fn add(
        &mut self,
        requests: &Range<usize>,
        part: Part,
        segment: Option<u32>,
        mut seen: impl FnMut(&Rows) -> Option<Visible>,
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
            let Unit { request, first_row, .. } = self.units[first];
            let requests = self.units[next - 1].request - request + 1;
            let rows = Rows { request, requests, first_row, rows };
            if let Some(seen) = seen(&rows) {
                let (unit, units) = (first as u32, (next - first) as u32);
                self.tiles.push(Tile { rows, part, segment, unit, units, seen, pieces: 0, partial: -1 });
            }
            first = next;
        }
    }

    /// Every request by itself, against all of its keys; there is a finder of each part for each variant that runs the list.
    pub(super) fn flat(&mut self, mut finders: Vec<[Finder<'_>; 2]>) {
        for request in 0..self.layout.batch() {
            let part = self.part_of_request(request);
            self.add(&(request..request + 1), part, None, |rows| {
                let &Rows { request, first_row, rows, .. } = rows;
                let found = finders.iter_mut().map(|of| of[part as usize].find(RowTile { request, first_row, rows }));
                found.reduce(Visible::hull)
            });
        }
    }

    /// Segment by segment; `asker` says what is seen.
    pub(super) fn by_segments(&mut self, asker: &Asker<'_>) {
        let layout = self.layout;
        for (index, segment) in layout.segments().iter().enumerate() {
            let all = segment.first_request..segment.first_request + segment.requests;
            if let Some(part) = self.sharing(&all, segment) {
                self.add_of(&all, part, index, asker);
                continue;
            }
            for request in all {
                let of_one = request..request + 1;
                self.add_of(&of_one, self.part_of_request(request), index, asker);
            }
        }
        for request in (0..layout.batch()).filter(|&request| layout.kv_len(request) == 0) {
            let part = self.part_of_request(request);
            self.add(&(request..request + 1), part, None, |_| Some(Visible { keys: 0, begin: 0, end: 0 }));
        }
    }

    /// Adds the tiles of some requests against a segment.
    fn add_of(&mut self, requests: &Range<usize>, part: Part, index: usize, asker: &Asker<'_>) {
        let layout = self.layout;
        let ends =
            |request: u32| layout.segments_of(request as usize).next_back().is_some_and(|(last, _)| last == index);
        // someone must write rows that see nothing: whoever has the last keys of their request
        let is_last = |rows: &Rows| (rows.request..rows.request + rows.requests).any(ends);
        let align = self.rule_of(part).kv_align;
        let segment = &layout.segments()[index];
        self.add(requests, part, Some(index as u32), |rows| {
            let seen = asker.seen(rows, segment, align);
            (seen.blocks() > 0 || is_last(rows)).then_some(seen)
        });
    }

    pub(super) fn part_of_request(&self, request: usize) -> Part {
        part_of(self.packed(&(request..request + 1)) as u32, self.rule)
    }

    /// The part that all rows of a group are run in together, or `None`: each request runs by itself.
    pub(super) fn sharing(&self, requests: &Range<usize>, segment: &Segment) -> Option<Part> {
        let asking = requests.clone().filter(|&request| self.layout.qo_len(request) > 0).count();
        if asking < 2 || self.rule.shared.sharing == Sharing::Never {
            return None;
        }
        let rows = self.packed(requests);
        // a tile has whole units
        if self.rule.prefill.tile_rows < self.rule.decode.tile_rows.min(MERGE_ROWS) {
            return None;
        }
        let part = if rows <= self.rule.decode.tile_rows.into() { Part::Decode } else { Part::Prefill };
        let pays = || self.cost_together(requests, segment, part, rows) < self.cost_apart(requests, segment);
        (self.rule.shared.sharing == Sharing::Always || pays()).then_some(part)
    }

    /// What the group costs in one: its tiles, keys that are read for the first time, and a state more for each unit of rows.
    pub(super) fn cost_together(&self, requests: &Range<usize>, segment: &Segment, part: Part, rows: u64) -> u64 {
        let rule = self.rule_of(part);
        let tiles = rows.div_ceil(rule.tile_rows.into());
        let states = self.units_of(requests).len() as u64;
        let first = match part {
            Part::Decode => 0, // its blocks are counted with reading
            Part::Prefill => blocks(segment, &self.rule.decode).saturating_mul(self.first_read()),
        };
        tiles_cost(rule.cost, tiles, blocks(segment, rule))
            .saturating_add(states.saturating_mul(self.rule.shared.state.into()))
            .saturating_add(first)
    }

    /// What it costs request by request: these keys lengthen tiles that there are anyway, as part of their blocks. One of them reads the keys from
    /// memory.
    pub(super) fn cost_apart(&self, requests: &Range<usize>, segment: &Segment) -> u64 {
        let costs = requests.clone().map(|request| {
            let (packed, part) = (self.packed(&(request..request + 1)), self.part_of_request(request));
            let rule = self.rule_of(part);
            let block = match part {
                Part::Decode => self.rule.shared.again.min(rule.cost.block),
                Part::Prefill => rule.cost.block,
            };
            let tiles = packed.div_ceil(rule.tile_rows.into());
            tiles.saturating_mul(segment.kv_len as u64).saturating_mul(block.into()) / u64::from(rule.kv_align)
        });
        let first = blocks(segment, &self.rule.decode).saturating_mul(self.first_read());
        costs.fold(first, u64::saturating_add)
    }

    /// What a block costs more where its keys come from memory.
    fn first_read(&self) -> u64 {
        self.rule.decode.cost.block.saturating_sub(self.rule.shared.again).into()
    }
}

/// Blocks of a segment, as tiles of a part take them.
pub(super) fn blocks(segment: &Segment, rule: &PlanRule) -> u64 {
    u64::from((segment.kv_len as u32).div_ceil(rule.kv_align))
}

fn tiles_cost(cost: Cost, tiles: u64, blocks: u64) -> u64 {
    let each = u64::from(cost.piece).saturating_add(blocks.saturating_mul(cost.block.into()));
    tiles.saturating_mul(each)
}

/// The part of a request of so many rows.
fn part_of(packed: u32, rule: &MixedRule) -> Part {
    if packed <= rule.decode.tile_rows { Part::Decode } else { Part::Prefill }
}
