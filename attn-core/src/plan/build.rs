//! A batch and a mask become a list.

use super::{PlanError, PlanRule, Scratch, WorkList, list::lists_of, rows::row_tiles, visible::Finder};
use crate::{
    batch::Layout,
    expr::Variant,
    lang::{Tile, TileClass},
    spec::Heads,
};

impl WorkList {
    /// The work of a batch in which every query may attend to every key. `group` is query heads per KV head.
    ///
    /// # Errors
    ///
    /// A rule with a 0 where 1 is the least, more rows or items than `i32` counts, or a cascade, whose work is a
    /// [`MixedList`](super::MixedList).
    pub fn build(layout: &Layout, group: u32, rule: &PlanRule) -> Result<Self, PlanError> {
        Self::build_visible(layout, group, rule, &|_| TileClass::Partial)
    }

    /// The work of a batch under a mask: keys before the first and after the last that `classify` does not
    /// prove skipped are left out, so that spans count real work. A tile without keys left has one item with an
    /// empty span, which writes O = 0.
    ///
    /// Deterministic: the same arguments give the same list. `classify` is asked O(log keys) times a tile, and a few times where the
    /// spans of neighbouring tiles end alike.
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
        let mut scratch = Scratch::default();
        row_tiles(layout, group.into(), rule.tile_rows.into(), None, &mut scratch.tiles)?;
        let mut finder = Finder::of_function(layout, classify, group, rule);
        scratch.seen.extend(scratch.tiles.iter().map(|tile| finder.find(*tile)));
        let mut list = WorkList::default();
        list.fill(&mut scratch, layout, group, rule, 1)?;
        Ok(list)
    }

    /// The work of a batch under a bound variant: its keys as far as its tile classes, `kv_range` and lists say which they are, one arm of a
    /// union after the other. The partial states of a tile lie together, whatever arms they are of, and one merge takes them all.
    ///
    /// Deterministic: the same arguments give the same list.
    ///
    /// # Errors
    ///
    /// As [`WorkList::build`]; also a list of more keys than `i32` counts.
    pub fn build_for(variant: &Variant, layout: &Layout, heads: Heads, rule: &PlanRule) -> Result<Self, PlanError> {
        let mut list = WorkList::default();
        list.rebuild_for(&mut Scratch::default(), variant, layout, heads, rule)?;
        Ok(list)
    }

    /// As [`WorkList::build_for`], into the memory of this list. Nothing is allocated once that and `scratch` have grown to the largest batch, but
    /// for a union, whose arms are made anew.
    ///
    /// # Errors
    ///
    /// As [`WorkList::build_for`]; the list is then not to be used.
    pub fn rebuild_for(
        &mut self,
        scratch: &mut Scratch,
        variant: &Variant,
        layout: &Layout,
        heads: Heads,
        rule: &PlanRule,
    ) -> Result<(), PlanError> {
        self.rebuild_for_all(scratch, variant, [], layout, heads, rule)
    }

    /// As [`WorkList::rebuild_for`], for several variants of one structure ([`Variant::check_structure`]): a tile has the keys that it sees under any of them,
    /// and those between, so that the list is right for each.
    ///
    /// # Errors
    ///
    /// As [`WorkList::rebuild_for`].
    pub fn rebuild_for_all<'v>(
        &mut self,
        scratch: &mut Scratch,
        variant: &Variant,
        others: impl IntoIterator<Item = &'v Variant>,
        layout: &Layout,
        heads: Heads,
        rule: &PlanRule,
    ) -> Result<(), PlanError> {
        let group = heads.group();
        rule.check(group)?;
        check_flat(layout)?;
        let Scratch { tiles, seen, .. } = scratch;
        let lists = lists_of(variant);
        row_tiles(layout, group.into(), rule.tile_rows.into(), lists.map(|lists| lists.queries), tiles)?;
        seen.clear();
        let mut arms = 1;
        if let Some(lists) = lists {
            for tile in &*tiles {
                seen.push(lists.visible(layout, heads, *tile, rule.kv_align)?);
            }
        } else if variant.has_union() {
            let variants = variant.arms();
            arms = variants.len();
            let finder = |arm| Finder::of_variant(layout, arm, heads, rule);
            let mut finders: Vec<_> = variants.iter().map(finder).collect();
            for tile in &*tiles {
                seen.extend(finders.iter_mut().map(|finder| finder.find(*tile)));
            }
        } else {
            let mut finder = Finder::of_variant(layout, variant, heads, rule);
            seen.extend(tiles.iter().map(|tile| finder.find(*tile)));
        }
        for other in others {
            see_also(other, scratch, layout, heads, rule, arms)?;
        }
        self.lists = lists.is_some();
        self.fill(scratch, layout, group, rule, arms)
    }
}

fn check_flat(layout: &Layout) -> Result<(), PlanError> {
    if layout.has_levels() { Err(PlanError::Levels { what: "a list of flat work" }) } else { Ok(()) }
}

/// Adds what tiles see under another variant.
fn see_also(
    variant: &Variant,
    scratch: &mut Scratch,
    layout: &Layout,
    heads: Heads,
    rule: &PlanRule,
    arms: usize,
) -> Result<(), PlanError> {
    let Scratch { tiles, seen, .. } = scratch;
    if let Some(lists) = lists_of(variant) {
        for (tile, seen) in tiles.iter().zip(seen) {
            *seen = seen.hull(lists.visible(layout, heads, *tile, rule.kv_align)?);
        }
        return Ok(());
    }
    let of_union = if variant.has_union() { variant.arms() } else { Vec::new() };
    let variants = if of_union.is_empty() { std::slice::from_ref(variant) } else { &of_union };
    for (arm, variant) in variants.iter().enumerate() {
        let mut finder = Finder::of_variant(layout, variant, heads, rule);
        for (tile, seen) in tiles.iter().zip(seen.chunks_exact_mut(arms)) {
            if let Some(seen) = seen.get_mut(arm) {
                *seen = seen.hull(finder.find(*tile));
            }
        }
    }
    Ok(())
}
