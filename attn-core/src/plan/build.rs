//! Builds the work list of a batch under a mask or a variant.

use super::{
    PlanError, PlanRule, PlanScratch, WorkList, kv_list::kv_lists_of, q_tiles::cut_q_tiles, visible::VisibleBlockFinder,
};
use crate::{
    batch::Layout,
    expr::Variant,
    lang::{Tile, TileClass},
    spec::Heads,
};

impl WorkList {
    /// The work of a batch in which every query attends to every key. `group` is the number of query heads per KV head.
    ///
    /// # Errors
    ///
    /// A rule with a count of 0, more rows or items than `i32` counts, or a cascade, which needs a
    /// [`MixedList`](super::MixedList).
    pub fn build(layout: &Layout, group: u32, rule: &PlanRule) -> Result<Self, PlanError> {
        Self::build_visible(layout, group, rule, &|_| TileClass::Partial)
    }

    /// The work of a batch under a mask. Keys before the first and after the last that `classify` does not prove
    /// skipped are left out, so that KV ranges count real work. A tile without visible keys has one item with an empty
    /// KV range, which writes O = 0.
    ///
    /// Deterministic: the same arguments give the same list. A tile costs O(log keys) calls of `classify`, and only a
    /// few if the ranges of neighbouring tiles end alike.
    ///
    /// # Errors
    ///
    /// As [`WorkList::build`].
    pub fn build_visible(
        layout: &Layout,
        group: u32,
        rule: &PlanRule,
        classify: &dyn Fn(Tile) -> TileClass,
    ) -> Result<Self, PlanError> {
        rule.check(group)?;
        check_flat(layout)?;
        let mut scratch = PlanScratch::default();
        cut_q_tiles(layout, group.into(), rule.tile_rows.into(), None, &mut scratch.tiles)?;
        let mut finder = VisibleBlockFinder::of_function(layout, classify, group, rule);
        scratch.visible.extend(scratch.tiles.iter().map(|tile| finder.find(*tile)));
        let mut list = WorkList::default();
        list.split_tiles(&mut scratch, layout, group, rule, 1)?;
        Ok(list)
    }

    /// The work of a batch under a bound variant. The keys of a tile follow from the tile classes, `kv_range` and key
    /// lists of the variant. Items of a union come branch by branch; the partial states of a tile are contiguous over
    /// all branches, and one merge reads them.
    ///
    /// Deterministic: the same arguments give the same list.
    ///
    /// # Errors
    ///
    /// As [`WorkList::build`]; also a key list of more keys than `i32` counts.
    pub fn build_for(variant: &Variant, layout: &Layout, heads: Heads, rule: &PlanRule) -> Result<Self, PlanError> {
        let mut list = WorkList::default();
        list.rebuild_for(&mut PlanScratch::default(), variant, layout, heads, rule)?;
        Ok(list)
    }

    /// As [`WorkList::build_for`], into the memory of this list. Nothing is allocated once the list and `scratch` have
    /// grown to the largest batch, except for a union, whose branches are derived again.
    ///
    /// # Errors
    ///
    /// As [`WorkList::build_for`]; the list is then not to be used.
    pub fn rebuild_for(
        &mut self,
        scratch: &mut PlanScratch,
        variant: &Variant,
        layout: &Layout,
        heads: Heads,
        rule: &PlanRule,
    ) -> Result<(), PlanError> {
        self.rebuild_for_all(scratch, variant, [], layout, heads, rule)
    }

    /// As [`WorkList::rebuild_for`], for several variants of one structure ([`Variant::check_structure`]). A tile gets
    /// the smallest range of blocks that contains its visible blocks under every variant. The list is therefore valid
    /// for each variant.
    ///
    /// # Errors
    ///
    /// As [`WorkList::rebuild_for`].
    pub fn rebuild_for_all<'v>(
        &mut self,
        scratch: &mut PlanScratch,
        variant: &Variant,
        others: impl IntoIterator<Item = &'v Variant>,
        layout: &Layout,
        heads: Heads,
        rule: &PlanRule,
    ) -> Result<(), PlanError> {
        let group = heads.group();
        rule.check(group)?;
        check_flat(layout)?;
        let PlanScratch { tiles, visible, .. } = scratch;
        let lists = kv_lists_of(variant);
        cut_q_tiles(layout, group.into(), rule.tile_rows.into(), lists.map(|lists| lists.queries), tiles)?;
        visible.clear();
        let mut branches = 1;
        if let Some(lists) = lists {
            for tile in &*tiles {
                visible.push(lists.visible(layout, heads, *tile, rule.kv_align)?);
            }
        } else if variant.has_union() {
            let variants = variant.branches();
            branches = variants.len();
            let finder = |branch| VisibleBlockFinder::of_variant(layout, branch, heads, rule);
            let mut finders: Vec<_> = variants.iter().map(finder).collect();
            for tile in &*tiles {
                visible.extend(finders.iter_mut().map(|finder| finder.find(*tile)));
            }
        } else {
            let mut finder = VisibleBlockFinder::of_variant(layout, variant, heads, rule);
            visible.extend(tiles.iter().map(|tile| finder.find(*tile)));
        }
        for other in others {
            see_also(other, scratch, layout, heads, rule, branches)?;
        }
        self.lists = lists.is_some();
        self.split_tiles(scratch, layout, group, rule, branches)
    }
}

fn check_flat(layout: &Layout) -> Result<(), PlanError> {
    if layout.has_levels() { Err(PlanError::Levels { what: "a list of flat work" }) } else { Ok(()) }
}

/// Extends the visible blocks of tiles to include their visible blocks under another variant.
fn see_also(
    variant: &Variant,
    scratch: &mut PlanScratch,
    layout: &Layout,
    heads: Heads,
    rule: &PlanRule,
    branches: usize,
) -> Result<(), PlanError> {
    let PlanScratch { tiles, visible, .. } = scratch;
    if let Some(lists) = kv_lists_of(variant) {
        for (tile, visible) in tiles.iter().zip(visible) {
            *visible = visible.join(lists.visible(layout, heads, *tile, rule.kv_align)?);
        }
        return Ok(());
    }
    let of_union = if variant.has_union() { variant.branches() } else { Vec::new() };
    let variants = if of_union.is_empty() { std::slice::from_ref(variant) } else { &of_union };
    for (branch, variant) in variants.iter().enumerate() {
        let mut finder = VisibleBlockFinder::of_variant(layout, variant, heads, rule);
        for (tile, visible) in tiles.iter().zip(visible.chunks_exact_mut(branches)) {
            if let Some(visible) = visible.get_mut(branch) {
                *visible = visible.join(finder.find(*tile));
            }
        }
    }
    Ok(())
}
