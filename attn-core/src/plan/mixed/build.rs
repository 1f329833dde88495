//! Builds the mixed list of a batch under a variant.

use std::{cmp::Reverse, ops::Range};

use super::{
    MixedItem, MixedList, MixedRule, MixedSegment,
    cut_tiles::TileCutter,
    partial_rows::assign_partial_rows,
    tile::{MergeUnit, MixedTile, Part},
    visible::SegmentClassifier,
};
use crate::{
    batch::Layout,
    expr::Variant,
    plan::{
        PlanError, PlanRule, Schedule,
        kv_splits::SplitSize,
        stream_k::{COST_OVERFLOW, Cut, StreamK, tile_ends},
        tile_classifier::TileClassifier,
        visible::{VisibleBlockFinder, VisibleBlocks},
    },
    spec::Heads,
};

/// Buffers of the mixed planner. Kept from plan to plan, they make planning of batches without levels free of
/// allocations once they have grown to the largest batch.
#[derive(Clone, Debug, Default)]
pub struct MixedScratch {
    units: Vec<MergeUnit>,
    first_unit_of: Vec<u32>,
    /// Tiles in the order of their keys.
    tiles: Vec<MixedTile>,
    /// Indices of the tiles of the decode part.
    decode: Vec<u32>,
    /// Visible blocks of the tiles of the prefill part.
    visible: Vec<VisibleBlocks>,
    /// Prefix sums of the costs of the decode part's tiles.
    ends: Vec<u64>,
    /// Where the workers of the decode part begin.
    cuts: Vec<Cut>,
    /// How the tiles of the prefill part are split.
    split_size: Option<SplitSize>,
    counts: Vec<i32>,
    merged: Vec<bool>,
}

impl MixedList {
    /// The work of a batch under a bound variant. The keys of a tile follow from the tile classes and `kv_range` of the
    /// variant.
    ///
    /// Deterministic: the same arguments give the same list.
    ///
    /// # Errors
    ///
    /// A rule with a count of 0; more rows or items than `i32` counts; [`PlanError::NotMixed`] for unions, key lists
    /// and fixed splits; [`PlanError::PerRequestKvTransform`] for levels of keys that are transformed by a
    /// coordinate of one request.
    pub fn build_for(variant: &Variant, layout: &Layout, heads: Heads, rule: &MixedRule) -> Result<Self, PlanError> {
        let mut list = MixedList::default();
        list.rebuild_for(&mut MixedScratch::default(), variant, layout, heads, rule)?;
        Ok(list)
    }

    /// As [`MixedList::build_for`], into the memory of this list.
    ///
    /// # Errors
    ///
    /// As [`MixedList::build_for`]; the list is then not to be used.
    pub fn rebuild_for(
        &mut self,
        scratch: &mut MixedScratch,
        variant: &Variant,
        layout: &Layout,
        heads: Heads,
        rule: &MixedRule,
    ) -> Result<(), PlanError> {
        self.rebuild_for_all(scratch, variant, [], layout, heads, rule)
    }

    /// As [`MixedList::rebuild_for`], for several variants of one structure ([`Variant::check_structure`]). A tile gets
    /// the smallest range of blocks that contains its visible blocks under every variant. It is full if it is full
    /// under every variant. The list is therefore valid for each variant.
    ///
    /// # Errors
    ///
    /// As [`MixedList::rebuild_for`].
    pub fn rebuild_for_all<'v>(
        &mut self,
        scratch: &mut MixedScratch,
        variant: &'v Variant,
        others: impl IntoIterator<Item = &'v Variant>,
        layout: &Layout,
        heads: Heads,
        rule: &MixedRule,
    ) -> Result<(), PlanError> {
        let group = heads.group();
        rule.check(group)?;
        let variants: Vec<&Variant> = [variant].into_iter().chain(others).collect();
        variants.iter().try_for_each(|variant| Self::supports(variant, layout))?;
        if [&rule.decode, &rule.prefill].iter().any(|rule| matches!(rule.schedule, Schedule::FixedSplit { .. })) {
            return Err(PlanError::NotMixed { what: "a batch-invariant plan" });
        }
        (self.group, self.tile_rows) = (group, [rule.decode.tile_rows, rule.prefill.tile_rows]);
        self.decode.clear();
        self.workers.clear();
        self.prefill.clear();
        self.merges.clear();
        self.merge_parts.clear();
        let MixedScratch { units, first_unit_of, tiles, .. } = scratch;
        let mut cutter = TileCutter { layout, rule, group, units, first_unit_of, tiles };
        cutter.cut_rows()?;
        let classifiers = variants.iter().map(|variant| TileClassifier::of(variant, heads)).collect();
        let classifier = SegmentClassifier { layout, classifiers, heads };
        if layout.has_levels() {
            cutter.add_segments(&classifier);
        } else {
            let of_variant = |variant: &&'v Variant| {
                [&rule.decode, &rule.prefill].map(|rule| VisibleBlockFinder::of_variant(layout, variant, heads, rule))
            };
            cutter.add_flat(variants.iter().map(of_variant).collect());
        }
        scratch.split_tiles(rule)?;
        let MixedScratch { units, tiles, counts, merged, .. } = scratch;
        assign_partial_rows(self, layout, tiles, units, counts, merged)?;
        self.write(scratch, &classifier, rule);
        Ok(())
    }

    /// Checks that a variant has mixed lists over the keys of a batch.
    ///
    /// # Errors
    ///
    /// [`PlanError::NotMixed`] for unions and key lists; [`PlanError::PerRequestKvTransform`] for levels of keys that
    /// are transformed by a coordinate of one request.
    pub fn supports(variant: &Variant, layout: &Layout) -> Result<(), PlanError> {
        Self::supports_in(variant, layout.has_levels())
    }

    /// As [`MixedList::supports`], for every batch with levels.
    ///
    /// # Errors
    ///
    /// As [`MixedList::supports`].
    pub fn supports_levels(variant: &Variant) -> Result<(), PlanError> {
        Self::supports_in(variant, true)
    }

    fn supports_in(variant: &Variant, levels: bool) -> Result<(), PlanError> {
        if variant.has_union() {
            return Err(PlanError::NotMixed { what: "a union" });
        }
        if variant.has_kv_list() {
            return Err(PlanError::NotMixed { what: "a list of keys" });
        }
        match variant.per_request_kv_coordinate() {
            Some((part, word)) if levels => Err(PlanError::PerRequestKvTransform { part, word }),
            _ => Ok(()),
        }
    }

    /// Writes the items of both parts.
    fn write(&mut self, scratch: &mut MixedScratch, classifier: &SegmentClassifier<'_>, rule: &MixedRule) {
        let MixedScratch { tiles, decode, cuts, split_size, .. } = scratch;
        let align = rule.decode.kv_align.into();
        self.workers.push(0);
        for ends in cuts.windows(2) {
            let (mut at, to) = (ends[0], ends[1]);
            while at != to {
                let tile = &mut tiles[decode[at.tile as usize] as usize];
                let (end, next) = match at.tile < to.tile {
                    true => (tile.visible.blocks(), Cut { tile: at.tile + 1, block: 0 }),
                    false => (to.block, to),
                };
                self.decode.push(mixed_item(classifier, align, tile, at.block..end));
                at = next;
            }
            self.workers.push(self.decode.len() as i32);
        }
        let Some(split_size) = *split_size else { return };
        let align = rule.prefill.kv_align.into();
        for tile in tiles.iter_mut().filter(|tile| tile.part == Part::Prefill) {
            let splits = split_size.splits_of(&tile.visible);
            for i in 0..splits.count() {
                self.prefill.push(mixed_item(classifier, align, tile, splits.get(i)));
            }
        }
        self.prefill.sort_unstable_by_key(|item| {
            (Reverse(item.kv_end - item.kv_begin), item.request, item.first_row, item.kv_begin)
        });
    }
}

impl MixedScratch {
    /// Splits the keys of tiles: where workers of the decode part begin, and into how many splits each tile is cut.
    fn split_tiles(&mut self, rule: &MixedRule) -> Result<(), PlanError> {
        let MixedScratch { tiles, decode, visible, ends, cuts, .. } = self;
        decode.clear();
        visible.clear();
        cuts.clear();
        let (mut longest, mut prefill_cost) = (0, 0u64);
        for (index, tile) in tiles.iter_mut().enumerate() {
            tile.splits = 1;
            match tile.part {
                Part::Decode => {
                    decode.push(index as u32);
                    longest = longest.max(tile.visible.blocks().into());
                }
                Part::Prefill => {
                    visible.push(tile.visible);
                    let cost = rule.prefill.cost;
                    let blocks = u64::from(tile.visible.blocks()).saturating_mul(cost.block.into());
                    prefill_cost =
                        prefill_cost.checked_add(blocks.saturating_add(cost.item.into())).ok_or(COST_OVERFLOW)?;
                }
            }
        }
        let blocks = decode.iter().map(|&tile| Some(u64::from(tiles[tile as usize].visible.blocks())));
        tile_ends(ends, rule.decode.cost, blocks)?;
        let decode_cost = ends.last().copied().unwrap_or(0);
        let workers = worker_share(rule.prefill.workers, prefill_cost, decode_cost);
        let split_size = SplitSize::equal(&PlanRule { workers, ..rule.prefill }, visible.len(), visible);
        let mut items = 0;
        for tile in tiles.iter_mut().filter(|tile| tile.part == Part::Prefill) {
            // fewer than 2^31 blocks
            tile.splits = split_size.splits_of(&tile.visible).count() as u32;
            items += u64::from(tile.splits);
        }
        self.split_size = Some(split_size);
        if !decode.is_empty() {
            let workers = co_run_workers(rule, items, decode_cost, prefill_cost);
            let stream_k = StreamK::new(ends, &PlanRule { workers, ..rule.decode }, decode.len() as u64, longest);
            cuts.extend((0..=stream_k.workers()).map(|worker| stream_k.cut(worker)));
            for ends in cuts.windows(2).filter(|ends| ends[1].block > 0 && ends[0] != ends[1]) {
                tiles[decode[ends[1].tile as usize] as usize].splits += 1;
            }
        }
        Ok(())
    }
}

/// The workers of a device that a part gets by its share of the cost, rounded down, but at least one.
fn worker_share(workers: u32, own: u64, other: u64) -> u32 {
    let (own, other) = (u128::from(own), u128::from(other));
    if other == 0 {
        return workers;
    }
    let share = u128::from(workers) * own / (own + other);
    (share as u32).clamp(1, workers) // no more than `workers`
}

/// The workers of the decode part, which costs `decode_cost`, in one launch with `items` items of the prefill part,
/// which cost `prefill_cost`.
///
/// If the workers that the prefill items leave free are at least the decode part's share, the part gets all of them.
/// Otherwise it gets [`MixedRule::co_run_workers`]: every decode worker then starts at once, on an SM that also runs a
/// prefill item. A share above three quarters of the device is kept as it is.
fn co_run_workers(rule: &MixedRule, items: u64, decode_cost: u64, prefill_cost: u64) -> u32 {
    let workers = rule.decode.workers;
    let share = worker_share(workers, decode_cost, prefill_cost);
    let left = u64::from(workers).saturating_sub(items) as u32; // no more than `workers`
    let nearly_all = u64::from(share) * 4 > u64::from(workers) * 3;
    if left >= share || nearly_all { left.max(share) } else { left.max(rule.co_run_workers).clamp(1, workers) }
}

/// The item of one KV split of a tile; `blocks` count from the first visible block of the tile.
fn mixed_item(classifier: &SegmentClassifier<'_>, align: u64, tile: &mut MixedTile, blocks: Range<u32>) -> MixedItem {
    let (layout, rows, visible) = (classifier.layout, tile.rows, tile.visible);
    let request = rows.request as usize;
    let keys = match tile.segment {
        Some(segment) => MixedSegment::of(layout, &layout.segments()[segment as usize]),
        None => MixedSegment::of_request(layout, request),
    };
    let key = |block: u32| keys.kv_begin + (u64::from(visible.begin + block) * align).min(visible.keys.into()) as i32;
    let range = if blocks.is_empty() { keys.kv_begin..keys.kv_begin } else { key(blocks.start)..key(blocks.end) };
    let partial = tile.partial;
    if partial >= 0 {
        tile.partial += rows.rows as i32;
    }
    MixedItem {
        request: rows.request as i32,
        requests: rows.requests as i32,
        first_row: rows.first_row as i32,
        rows: rows.rows as i32,
        kv_begin: range.start,
        kv_end: range.end,
        kv_first: keys.kv_begin,
        memory: keys.memory,
        pass: keys.pass,
        full: (tile.segment.is_some() && !range.is_empty() && classifier.is_full(&rows, range.clone())).into(),
        partial,
        qo_token: layout.qo_indptr()[request],
        qo_len: layout.qo_len(request) as i32,
        kv_token: layout.kv_indptr()[request],
        kv_len: layout.kv_len(request) as i32,
        _pad: 0,
    }
}
