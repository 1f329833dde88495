//! Builds the work list of a batch under a variant.

use super::cascade::SegmentCutter;
use super::cascade_cost::CascadeModel;
use super::cut_tiles::TileCutter;
use super::error::count_i32;
use super::partial_rows::{assign_flat, assign_mixed};
use super::segment_visible::SegmentClassifier;
use super::tile::{QTile, TileRows, VisibleBlocks};
use super::visible::VisibleBlockFinder;
use super::{ListRule, MixedRule, PlanError, PlanRule, PlanScratch, Schedule, WorkList, WorkPart};
use crate::batch::{Layout, row_index};
use crate::expr::{KvLists, TileClassifier, Variant};
use crate::spec::Heads;

impl WorkList {
    /// The work of a batch under a bound variant. The keys of a tile follow from the tile classes, `kv_range` and key
    /// lists of the variant; keys before the first and after the last that is not proven masked are left out. A tile
    /// without visible keys has one item with an empty KV range, which writes O = 0.
    ///
    /// The items of a union come branch by branch. One merge reads the partial states of a tile in all branches.
    ///
    /// Deterministic: the same arguments give the same list.
    ///
    /// # Errors
    ///
    /// A rule with a count of 0; more rows, items or keys of a key list than `i32` counts. A flat list refuses batches
    /// with levels ([`PlanError::Levels`]). A mixed list refuses fixed splits and what [`WorkList::supports`] does.
    pub fn build_for(variant: &Variant, layout: &Layout, heads: Heads, rule: &ListRule) -> Result<Self, PlanError> {
        let mut list = WorkList::default();
        list.rebuild_for(&mut PlanScratch::default(), variant, &[], layout, heads, rule)?;
        Ok(list)
    }

    /// Builds into the memory of this list, and for other variants of the same structure ([`Variant::check_structure`])
    /// too. A tile gets the smallest range of blocks that contains its visible blocks under every variant, and is full
    /// if it is full under every variant. So the list is valid for each of them.
    ///
    /// Nothing is allocated once the list and `scratch` have grown to the largest batch, except for levels and for a
    /// union, whose branches are derived again.
    ///
    /// # Errors
    ///
    /// The errors of [`WorkList::build_for`]; the list is then not to be used.
    pub fn rebuild_for(
        &mut self,
        scratch: &mut PlanScratch,
        variant: &Variant,
        others: &[&Variant],
        layout: &Layout,
        heads: Heads,
        rule: &ListRule,
    ) -> Result<(), PlanError> {
        let group = heads.group();
        rule.check(group)?;
        match rule {
            ListRule::Flat(_) if layout.has_levels() => return Err(PlanError::Levels { what: "a list of flat work" }),
            ListRule::Flat(_) => {}
            ListRule::Mixed(MixedRule { decode, prefill, .. }) => {
                [variant].iter().chain(others).try_for_each(|variant| Self::supports(variant, layout.has_levels()))?;
                if [decode, prefill].iter().any(|rule| matches!(rule.schedule, Schedule::FixedSplit { .. })) {
                    return Err(PlanError::NotMixed { what: "a batch-invariant plan" });
                }
            }
        }
        self.clear(variant, group, rule);
        let PlanScratch { units, first_unit_of, tiles, .. } = scratch;
        let mut cutter = TileCutter { layout, rule, group, units, first_unit_of, tiles };
        cutter.cut_rows(KvLists::of(variant).map(|lists| lists.queries))?;
        cutter.repeat_for(self.branches());
        let classifier = classifier_of_levels(variant, others, layout, heads);
        if let (Some(classifier), ListRule::Mixed(rule)) = (&classifier, rule) {
            let model = CascadeModel { layout, rule, group };
            SegmentCutter { model, units, first_unit_of, tiles }.add_segments(classifier);
        } else {
            find_visible(variant, tiles, layout, heads, rule, false)?;
            others.iter().try_for_each(|other| find_visible(other, tiles, layout, heads, rule, true))?;
            choose_branches(tiles, self.branches());
        }
        self.split_tiles(scratch, layout, rule)?;
        if let Some(classifier) = classifier {
            for item in self.items.iter_mut().filter(|item| item.kv_begin < item.kv_end) {
                item.full = classifier.is_full(&TileRows::of(item), item.kv_begin..item.kv_end).into();
            }
        }
        Ok(())
    }

    /// Splits tiles whose visible blocks are known, and writes the list.
    pub(super) fn split_tiles(
        &mut self,
        scratch: &mut PlanScratch,
        layout: &Layout,
        rule: &ListRule,
    ) -> Result<(), PlanError> {
        scratch.split_tiles(self, rule)?;
        let PlanScratch { units, tiles, .. } = scratch;
        match rule {
            ListRule::Flat(rule) => assign_flat(self, layout, tiles, rule.tile_rows)?,
            ListRule::Mixed(_) => assign_mixed(self, layout, tiles, units)?,
        }
        scratch.write_items(self, layout, rule)
    }

    /// Checks that a variant has mixed lists; `levels`: over batches with levels, too.
    ///
    /// # Errors
    ///
    /// [`PlanError::NotMixed`] for unions and key lists; [`PlanError::PerRequestKvTransform`] for levels of keys that
    /// are transformed by a coordinate of one request.
    pub fn supports(variant: &Variant, levels: bool) -> Result<(), PlanError> {
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

    /// Checks that batches with levels of a variant run level by level. Where they do not, they run flattened, if that
    /// can be.
    ///
    /// # Errors
    ///
    /// Those of [`WorkList::supports`]; [`PlanError::Levels`] under batch invariance.
    pub fn supports_levels(variant: &Variant, batch_invariant: bool) -> Result<(), PlanError> {
        if batch_invariant {
            return Err(PlanError::Levels { what: "a batch-invariant attention" });
        }
        Self::supports(variant, true)
    }

    /// Clears the list, except for its parts.
    fn clear(&mut self, variant: &Variant, group: u32, rule: &ListRule) {
        (self.group, self.lists) = (group, variant.has_kv_list());
        self.fixed_splits = matches!(rule, ListRule::Flat(PlanRule { schedule: Schedule::FixedSplit { .. }, .. }));
        let branches = if variant.has_union() { variant.branches().len() as u32 } else { 1 };
        self.parts.clear();
        let part = |branch, rule: &PlanRule| WorkPart { branch, tile_rows: rule.tile_rows, ..WorkPart::default() };
        match rule {
            ListRule::Flat(rule) => self.parts.extend((0..branches).map(|branch| part(branch, rule))),
            ListRule::Mixed(rule) => self.parts.extend([part(0, &rule.decode), part(0, &rule.prefill)]),
        }
        self.items.clear();
        self.workers.clear();
        self.merges.clear();
        self.merge_parts.clear();
    }
}

/// Finds the visible blocks of all tiles under a variant. `joins`: extends those of other variants.
fn find_visible(
    variant: &Variant,
    tiles: &mut [QTile],
    layout: &Layout,
    heads: Heads,
    rule: &ListRule,
    joins: bool,
) -> Result<(), PlanError> {
    let set = |tile: &mut QTile, found: VisibleBlocks| {
        tile.visible = if joins { tile.visible.join(found) } else { found };
    };
    if let Some(lists) = KvLists::of(variant) {
        for tile in tiles {
            // the longest list over the KV heads
            let (request, row) = (tile.rows.request as usize, tile.rows.first_row as usize);
            let keys = |kv_head| lists.keys(row_index(layout, heads, request, kv_head, row));
            let longest = (0..heads.kv as usize).map(keys).max().unwrap_or(0);
            let keys = count_i32("virtual keys of one list", longest)? as u32;
            set(tile, VisibleBlocks::all(keys, rule.of_part(tile.part).kv_align));
        }
        return Ok(());
    }
    let branches = if variant.has_union() { variant.branches() } else { Vec::new() };
    for part in 0..branches.len().max(if matches!(rule, ListRule::Mixed(_)) { 2 } else { 1 }) {
        let variant = branches.get(part).unwrap_or(variant);
        let mut finder = VisibleBlockFinder::new(layout, variant, heads, rule.of_part(part as u32));
        for tile in tiles.iter_mut().filter(|tile| tile.part == part as u32) {
            let found = finder.find(tile.rows);
            set(tile, found);
        }
    }
    Ok(())
}

/// Chooses the branches of a union that run a tile: those in which keys of the tile are visible. A tile without visible
/// keys in any branch is run by the first branch, since one item must write its output.
fn choose_branches(tiles: &mut [QTile], branches: usize) {
    let count = tiles.len() / branches;
    if branches == 1 {
        return;
    }
    for first in 0..count {
        let of_branches = |branch: usize| first + branch * count;
        let none = (0..branches).all(|branch| tiles[of_branches(branch)].visible.blocks() == 0);
        for branch in 0..branches {
            let tile = &mut tiles[of_branches(branch)];
            tile.splits = (tile.visible.blocks() > 0 || none && branch == 0).into();
        }
    }
}

/// The classifier of a batch with levels, under all variants.
fn classifier_of_levels<'a>(
    variant: &'a Variant,
    others: &[&'a Variant],
    layout: &'a Layout,
    heads: Heads,
) -> Option<SegmentClassifier<'a>> {
    layout.has_levels().then(|| {
        let variants = [variant].into_iter().chain(others.iter().copied());
        SegmentClassifier { layout, classifiers: variants.map(|v| TileClassifier::of(v, heads)).collect(), heads }
    })
}
