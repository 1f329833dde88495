//! Splits the visible keys of tiles, and writes the items of a work list.

use std::ops::Range;

use super::kv_splits::{SplitSize, by_request, in_order, longest_first};
use super::rule::{DECODE, PREFILL};
use super::stream_k::{COST_OVERFLOW, Cut, StreamK, tile_ends};
use super::tile::{MergeUnit, QTile, VisibleBlocks};
use super::worker_share::{co_run_workers, own_sm_workers, worker_share};
use super::{ListRule, MixedRule, PlanError, PlanRule, Schedule, WorkItem, WorkList};
use crate::batch::{KvSegment, Layout};

/// Buffers of the planner. Kept from plan to plan ([`WorkList::rebuild_for`]), they make planning of batches without
/// levels free of allocations once they have grown to the largest batch.
#[derive(Clone, Debug, Default)]
pub struct PlanScratch {
    pub(super) units: Vec<MergeUnit>,
    pub(super) first_unit_of: Vec<u32>,
    /// Tiles. Those of a unit are in the order of their keys, or of the branches of a union.
    pub(super) tiles: Vec<QTile>,
    /// Indices of tiles, part by part.
    of_parts: Vec<u32>,
    /// Where the indices of each part end.
    part_ends: Vec<usize>,
    /// Prefix sums of the costs of a part's tiles.
    ends: Vec<u64>,
    /// Where the workers of each part under stream-K begin, part by part.
    cuts: Vec<Cut>,
    /// How tiles of the other parts are split.
    split_size: Option<SplitSize>,
}

impl PlanScratch {
    /// Splits the keys of all tiles: where stream-K workers begin, and into how many splits each tile is cut.
    pub(super) fn split_tiles(&mut self, list: &mut WorkList, rule: &ListRule) -> Result<(), PlanError> {
        self.of_parts.clear();
        self.part_ends.clear();
        self.cuts.clear();
        for part in 0..list.parts.len() as u32 {
            let indices = 0..self.tiles.len() as u32;
            match list.parts[..] {
                [_] => self.of_parts.extend(indices),
                _ => self.of_parts.extend(indices.filter(|&index| self.tiles[index as usize].part == part)),
            }
            self.part_ends.push(self.of_parts.len());
        }
        match rule {
            ListRule::Mixed(rule) => self.split_mixed(list, rule),
            ListRule::Flat(rule @ PlanRule { schedule: Schedule::StreamK, .. }) => {
                (0..list.parts.len()).try_for_each(|part| self.cut_into_workers(list, part, rule))
            }
            ListRule::Flat(rule) => {
                self.split_each(0..self.of_parts.len(), self.of_parts.len() / list.branches(), rule);
                Ok(())
            }
        }
    }

    /// Splits both parts of a mixed list. Each gets its share of the workers.
    fn split_mixed(&mut self, list: &mut WorkList, rule: &MixedRule) -> Result<(), PlanError> {
        let mut costs = [0u64; 2];
        for tile in &self.tiles {
            let cost = rule.of_part(tile.part).cost;
            let blocks = u64::from(tile.visible.blocks()).saturating_mul(cost.block.into());
            let of_part = &mut costs[tile.part as usize];
            *of_part = of_part.checked_add(blocks.saturating_add(cost.item.into())).ok_or(COST_OVERFLOW)?;
        }
        let [decode_cost, prefill_cost] = costs;
        let prefill = self.of_part(PREFILL as usize);
        let workers = worker_share(rule.prefill.workers, prefill_cost, decode_cost);
        let items = self.split_each(prefill.clone(), prefill.len(), &PlanRule { workers, ..rule.prefill });
        if self.of_part(DECODE as usize).is_empty() {
            return Ok(());
        }
        let of_device = rule.decode.workers;
        let workers = match rule.own_sms {
            true => own_sm_workers(of_device, items, decode_cost, prefill_cost),
            false => co_run_workers(of_device, rule.co_run_workers, items, decode_cost, prefill_cost),
        };
        self.cut_into_workers(list, DECODE as usize, &PlanRule { workers, ..rule.decode })
    }

    /// The range of a part in `of_parts`.
    fn of_part(&self, part: usize) -> Range<usize> {
        part.checked_sub(1).map_or(0, |before| self.part_ends[before])..self.part_ends[part]
    }

    /// Cuts the tiles of a part by stream-K.
    fn cut_into_workers(&mut self, list: &mut WorkList, part: usize, rule: &PlanRule) -> Result<(), PlanError> {
        let of_part = self.of_part(part);
        let PlanScratch { tiles, of_parts, ends, cuts, .. } = self;
        let of_part = &of_parts[of_part];
        let (mut count, mut longest) = (0, 0);
        let costs = of_part.iter().map(|&tile| {
            let QTile { splits, visible, .. } = &tiles[tile as usize];
            count += u64::from(*splits);
            longest = longest.max(visible.blocks());
            (*splits, visible.blocks())
        });
        tile_ends(ends, rule.cost, costs)?;
        let stream_k = StreamK::new(ends, rule, count, longest.into());
        let first = cuts.len();
        let mut last = stream_k.cut(0);
        cuts.push(last);
        for worker in 1..=stream_k.workers() {
            let cut = stream_k.cut(worker);
            if cut.block > 0 && cut != last {
                tiles[of_part[cut.tile as usize] as usize].splits += 1;
            }
            cuts.push(cut);
            last = cut;
        }
        list.parts[part].workers = first..cuts.len();
        Ok(())
    }

    /// Splits each tile of a range of `of_parts` on its own. Returns the number of items.
    fn split_each(&mut self, range: Range<usize>, count: usize, rule: &PlanRule) -> u64 {
        let PlanScratch { tiles, of_parts, split_size, .. } = self;
        let of_part = &of_parts[range];
        let split_size = split_size.insert(match rule.schedule {
            Schedule::FixedSplit { .. } => SplitSize::Multiples(rule.fixed_split_blocks()),
            Schedule::LongestFirst | Schedule::StreamK => {
                let blocks = || of_part.iter().map(|&tile| tiles[tile as usize].visible.blocks());
                SplitSize::equal(rule, count, blocks)
            }
        });
        let mut items = 0;
        for &tile in of_part {
            let tile = &mut tiles[tile as usize];
            tile.splits *= split_size.splits_of(&tile.visible).count();
            items += u64::from(tile.splits);
        }
        items
    }

    /// Writes the items and workers of all parts. Tiles are split, and their partial states have rows.
    pub(super) fn write_items(
        &mut self,
        list: &mut WorkList,
        layout: &Layout,
        rule: &ListRule,
    ) -> Result<(), PlanError> {
        for part in 0..list.parts.len() {
            let (first, range, of_rule) = (list.items.len(), self.of_part(part), rule.of_part(part as u32));
            let PlanScratch { tiles, of_parts, cuts, split_size, .. } = self;
            let of_part = &of_parts[range];
            let mut writer = ItemWriter {
                layout,
                segments: layout.segments(),
                items: &mut list.items,
                next: WorkItem::default(),
                visible: VisibleBlocks::default(),
                align: of_rule.kv_align.into(),
                tile_rows: if let ListRule::Flat(rule) = rule { rule.tile_rows as i32 } else { 0 },
            };
            let workers = list.workers.len();
            match (of_rule.schedule, *split_size) {
                (Schedule::StreamK, _) => {
                    let cuts = &cuts[list.parts[part].workers.clone()];
                    list.workers.extend(cuts.first().map(|_| first as i32));
                    for ends in cuts.windows(2) {
                        let (mut at, to) = (ends[0], ends[1]);
                        while at != to {
                            let tile = &tiles[of_part[at.tile as usize] as usize];
                            if at.block == 0 {
                                writer.begin(tile);
                            }
                            let (end, next) = match at.tile < to.tile {
                                true => (tile.visible.blocks(), Cut { tile: at.tile + 1, block: 0 }),
                                false => (to.block, to),
                            };
                            if tile.splits > 0 {
                                writer.write(at.block..end);
                            }
                            at = next;
                        }
                        list.workers.push(writer.items.len() as i32);
                    }
                }
                (schedule, Some(split_size)) => {
                    for &tile in of_part {
                        let tile = &tiles[tile as usize];
                        writer.begin(tile);
                        let splits = split_size.splits_of(&tile.visible);
                        (0..tile.splits).for_each(|i| writer.write(splits.get(i)));
                    }
                    match schedule {
                        Schedule::FixedSplit { .. } => {
                            in_order(&list.items[first..], first, of_rule, &mut list.workers)?;
                        }
                        _ if matches!(rule, ListRule::Mixed(_)) && !layout.has_levels() => {
                            by_request(&mut list.items[first..]);
                        }
                        _ => longest_first(&mut list.items[first..]),
                    }
                }
                _ => {}
            }
            list.parts[part].items = first..list.items.len();
            list.parts[part].workers = workers..list.workers.len();
        }
        Ok(())
    }
}

/// Writes the items of a part, tile by tile.
struct ItemWriter<'a> {
    layout: &'a Layout,
    segments: &'a [KvSegment],
    items: &'a mut Vec<WorkItem>,
    /// The next item of the tile, except for its keys.
    next: WorkItem,
    visible: VisibleBlocks,
    /// Keys per block.
    align: u64,
    /// Rows from one partial state of a tile to the next; 0: the rows of the tile.
    tile_rows: i32,
}

impl ItemWriter<'_> {
    /// Begins a tile.
    #[inline]
    fn begin(&mut self, tile: &QTile) {
        let (layout, rows) = (self.layout, tile.rows);
        let request = rows.request as usize;
        let whole = layout.whole_segment(request);
        let keys = self.segments.get(tile.segment as usize).unwrap_or(&whole);
        self.visible = tile.visible;
        self.next = WorkItem {
            request: rows.request as i32,
            requests: rows.requests as i32,
            first_row: rows.first_row as i32,
            rows: rows.rows as i32,
            kv_begin: keys.kv_begin,
            kv_end: keys.kv_begin,
            kv_first: keys.kv_begin,
            memory: keys.memory,
            pass: keys.pass,
            full: 0,
            partial: tile.partial,
            merge: tile.merge,
            qo_token: layout.qo_indptr()[request],
            qo_len: layout.qo_len(request) as i32,
            kv_token: whole.kv_token,
            kv_len: whole.kv_len,
        };
    }

    /// Writes one KV split of the tile; `blocks` count from its first visible block.
    #[inline]
    fn write(&mut self, blocks: Range<u32>) {
        let VisibleBlocks { keys, begin, .. } = self.visible;
        let key = |block: u32| (u64::from(begin + block) * self.align).min(keys.into()) as i32;
        let mut item = self.next;
        if !blocks.is_empty() {
            item.kv_begin += key(blocks.start);
            item.kv_end += key(blocks.end);
        }
        self.items.push(item);
        if item.partial >= 0 {
            self.next.partial += if self.tile_rows > 0 { self.tile_rows } else { item.rows };
        }
    }
}
