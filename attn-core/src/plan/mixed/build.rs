//! A batch and a variant become a mixed list.

use std::{cmp::Reverse, ops::Range};

use super::{
    MixedItem, MixedList, MixedRule, MixedSegment,
    seen::Asker,
    states::place,
    tiles::{Part, Tile, Tiles, Unit},
};
use crate::{
    batch::Layout,
    expr::Variant,
    plan::{
        PlanError, PlanRule, Schedule,
        line::{Cut, Line, TOO_COSTLY, measure},
        mask::Mask,
        spans::Steps,
        visible::{Finder, Visible},
    },
    spec::Heads,
};

/// What planning writes down on the way. Kept from plan to plan, it makes planning of batches without levels free of allocations once it has grown
/// to the largest.
#[derive(Clone, Debug, Default)]
pub struct MixedScratch {
    units: Vec<Unit>,
    unit_of: Vec<u32>,
    /// In the order of keys.
    tiles: Vec<Tile>,
    /// The tiles of the decode part.
    decode: Vec<u32>,
    /// What those of the prefill part see.
    seen: Vec<Visible>,
    /// Where those of the decode part end on the line.
    ends: Vec<u64>,
    /// Where its workers begin.
    cuts: Vec<Cut>,
    /// How those of the prefill part are cut.
    steps: Option<Steps>,
    counts: Vec<i32>,
    merged: Vec<bool>,
}

impl MixedList {
    /// The work of a batch under a bound variant: its keys as far as its tile classes and `kv_range` say which they are.
    ///
    /// Deterministic: the same arguments give the same list.
    ///
    /// # Errors
    ///
    /// A rule with a 0 where 1 is the least; more rows or items than `i32` counts; [`PlanError::NotMixed`] for unions, lists of keys and fixed cuts;
    /// [`PlanError::RewrittenForOne`] for levels of keys that are rewritten by words of one request.
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

    /// As [`MixedList::rebuild_for`], for several variants of one structure ([`Variant::check_structure`]): a tile has the keys that it sees under any of
    /// them, and those between, and is full where all say so, so that the list is right for each.
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
        if [&rule.decode, &rule.prefill].iter().any(|rule| matches!(rule.schedule, Schedule::Fixed { .. })) {
            return Err(PlanError::NotMixed { what: "a batch-invariant plan" });
        }
        (self.group, self.tile_rows) = (group, [rule.decode.tile_rows, rule.prefill.tile_rows]);
        self.decode.clear();
        self.workers.clear();
        self.prefill.clear();
        self.merges.clear();
        self.merge_parts.clear();
        let MixedScratch { units, unit_of, tiles, .. } = scratch;
        let mut cutting = Tiles { layout, rule, group, units, unit_of, tiles };
        cutting.cut_rows()?;
        let masks = variants.iter().map(|variant| Mask::of(variant, heads)).collect();
        let asker = Asker { layout, masks, heads };
        if layout.has_levels() {
            cutting.by_segments(&asker);
        } else {
            let of_variant = |variant: &&'v Variant| {
                [&rule.decode, &rule.prefill].map(|rule| Finder::of_variant(layout, variant, heads, rule))
            };
            cutting.flat(variants.iter().map(of_variant).collect());
        }
        scratch.cut(rule)?;
        let MixedScratch { units, tiles, counts, merged, .. } = scratch;
        place(self, layout, tiles, units, counts, merged)?;
        self.write(scratch, &asker, rule);
        Ok(())
    }

    /// Whether there are mixed lists of a variant, over the keys of a batch.
    ///
    /// # Errors
    ///
    /// [`PlanError::NotMixed`] for unions and lists of keys; [`PlanError::RewrittenForOne`] for levels of keys that are rewritten by words of one request.
    pub fn supports(variant: &Variant, layout: &Layout) -> Result<(), PlanError> {
        Self::supports_in(variant, layout.has_levels())
    }

    /// As [`MixedList::supports`], of all batches with levels.
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
        match variant.rewrites_for_one() {
            Some((part, word)) if levels => Err(PlanError::RewrittenForOne { part, word }),
            _ => Ok(()),
        }
    }

    /// Writes the items of both parts.
    fn write(&mut self, scratch: &mut MixedScratch, asker: &Asker<'_>, rule: &MixedRule) {
        let MixedScratch { tiles, decode, cuts, steps, .. } = scratch;
        let align = rule.decode.kv_align.into();
        self.workers.push(0);
        for ends in cuts.windows(2) {
            let (mut at, to) = (ends[0], ends[1]);
            while at != to {
                let tile = &mut tiles[decode[at.tile as usize] as usize];
                let (end, next) = match at.tile < to.tile {
                    true => (tile.seen.blocks(), Cut { tile: at.tile + 1, block: 0 }),
                    false => (to.block, to),
                };
                self.decode.push(item(asker, align, tile, at.block..end));
                at = next;
            }
            self.workers.push(self.decode.len() as i32);
        }
        let Some(steps) = *steps else { return };
        let align = rule.prefill.kv_align.into();
        for tile in tiles.iter_mut().filter(|tile| tile.part == Part::Prefill) {
            let spans = steps.of(&tile.seen);
            for i in 0..spans.count() {
                self.prefill.push(item(asker, align, tile, spans.get(i)));
            }
        }
        self.prefill.sort_unstable_by_key(|item| {
            (Reverse(item.kv_end - item.kv_begin), item.request, item.first_row, item.kv_begin)
        });
    }
}

impl MixedScratch {
    /// Cuts the keys of tiles: where workers of the decode part begin, and how many pieces each tile has.
    fn cut(&mut self, rule: &MixedRule) -> Result<(), PlanError> {
        let MixedScratch { tiles, decode, seen, ends, cuts, .. } = self;
        decode.clear();
        seen.clear();
        cuts.clear();
        let (mut longest, mut many) = (0, 0u64);
        for (index, tile) in tiles.iter_mut().enumerate() {
            tile.pieces = 1;
            match tile.part {
                Part::Decode => {
                    decode.push(index as u32);
                    longest = longest.max(tile.seen.blocks().into());
                }
                Part::Prefill => {
                    seen.push(tile.seen);
                    let cost = rule.prefill.cost;
                    let blocks = u64::from(tile.seen.blocks()).saturating_mul(cost.block.into());
                    many = many.checked_add(blocks.saturating_add(cost.piece.into())).ok_or(TOO_COSTLY)?;
                }
            }
        }
        let blocks = decode.iter().map(|&tile| Some(u64::from(tiles[tile as usize].seen.blocks())));
        measure(ends, rule.decode.cost, blocks)?;
        let few = ends.last().copied().unwrap_or(0);
        let workers = share_of(rule.prefill.workers, many, few);
        let steps = Steps::equal(&PlanRule { workers, ..rule.prefill }, seen.len(), seen);
        let mut items = 0;
        for tile in tiles.iter_mut().filter(|tile| tile.part == Part::Prefill) {
            // fewer than 2^31 blocks
            tile.pieces = steps.of(&tile.seen).count() as u32;
            items += u64::from(tile.pieces);
        }
        self.steps = Some(steps);
        if !decode.is_empty() {
            let workers = beside(rule, items, few, many);
            let line = Line::new(ends, &PlanRule { workers, ..rule.decode }, decode.len() as u64, longest);
            cuts.extend((0..=line.workers()).map(|worker| line.cut(worker)));
            for ends in cuts.windows(2).filter(|ends| ends[1].block > 0 && ends[0] != ends[1]) {
                tiles[decode[ends[1].tile as usize] as usize].pieces += 1;
            }
        }
        Ok(())
    }
}

/// The workers that a part gets of a device, by what both cost: whole ones, but one at least.
fn share_of(workers: u32, own: u64, other: u64) -> u32 {
    let (own, other) = (u128::from(own), u128::from(other));
    if other == 0 {
        return workers;
    }
    let share = u128::from(workers) * own / (own + other);
    (share as u32).clamp(1, workers) // no more than `workers`
}

/// The workers of the decode part, which costs `few`, beside so many items of the prefill part, which cost `many`.
///
/// What the items leave, where that is the part's share. Elsewhere as many as find an item beside them on every multiprocessor, so that all begin at once;
/// but their share, where that is nearly the whole device.
fn beside(rule: &MixedRule, items: u64, few: u64, many: u64) -> u32 {
    let workers = rule.decode.workers;
    let share = share_of(workers, few, many);
    let left = u64::from(workers).saturating_sub(items) as u32; // no more than `workers`
    let nearly_all = u64::from(share) * 4 > u64::from(workers) * 3;
    if left >= share || nearly_all { left.max(share) } else { left.max(rule.beside).clamp(1, workers) }
}

/// A piece of a tile: blocks counted from the first that it sees.
fn item(asker: &Asker<'_>, align: u64, tile: &mut Tile, blocks: Range<u32>) -> MixedItem {
    let (layout, rows, seen) = (asker.layout, tile.rows, tile.seen);
    let request = rows.request as usize;
    let keys = match tile.segment {
        Some(segment) => MixedSegment::of(layout, &layout.segments()[segment as usize]),
        None => MixedSegment::of_request(layout, request),
    };
    let key = |block: u32| keys.kv_begin + (u64::from(seen.begin + block) * align).min(seen.keys.into()) as i32;
    let span = if blocks.is_empty() { keys.kv_begin..keys.kv_begin } else { key(blocks.start)..key(blocks.end) };
    let partial = tile.partial;
    if partial >= 0 {
        tile.partial += rows.rows as i32;
    }
    MixedItem {
        request: rows.request as i32,
        requests: rows.requests as i32,
        first_row: rows.first_row as i32,
        rows: rows.rows as i32,
        kv_begin: span.start,
        kv_end: span.end,
        kv_first: keys.kv_begin,
        memory: keys.memory,
        pass: keys.pass,
        full: (tile.segment.is_some() && !span.is_empty() && asker.full(&rows, span.clone())).into(),
        partial,
        qo_token: layout.qo_indptr()[request],
        qo_len: layout.qo_len(request) as i32,
        kv_token: layout.kv_indptr()[request],
        kv_len: layout.kv_len(request) as i32,
        _pad: 0,
    }
}
