//! Cutting a batch into work.

use super::{
    ArmCount, PlanError, PlanRule, Schedule, Scratch, WorkList,
    emit::Emit,
    line::{Line, measure},
    list::lists_of,
    place::{Place, place},
    rows::row_tiles,
    spans::{Steps, in_order, longest_first},
    visible::{Finder, Visible},
};
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
    /// A rule with a 0 where 1 is the least, or more rows or items than `i32` counts.
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
        let group = heads.group();
        rule.check(group)?;
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
        self.lists = lists.is_some();
        self.fill(scratch, layout, group, rule, arms)
    }

    /// Cuts the tiles in `scratch`, and writes the list.
    fn fill(
        &mut self,
        scratch: &mut Scratch,
        layout: &Layout,
        group: u32,
        rule: &PlanRule,
        arms: usize,
    ) -> Result<(), PlanError> {
        (self.tile_rows, self.group) = (rule.tile_rows, group);
        self.items.clear();
        self.workers.clear();
        self.arm_counts.clear();
        self.merges.clear();
        scratch.places.clear();
        scratch.places.resize(scratch.tiles.len(), Place::default());
        match rule.schedule {
            Schedule::Line => self.fill_line(scratch, layout, rule, arms)?,
            Schedule::LongestFirst => {
                let steps = Steps::equal(rule, scratch.tiles.len(), &scratch.seen);
                self.fill_spans(scratch, layout, rule, arms, steps)?;
            }
            Schedule::Fixed { keys } => {
                self.fill_spans(scratch, layout, rule, arms, Steps::multiples(rule, keys))?;
            }
        }
        if arms == 1 {
            self.arm_counts.clear();
        }
        Ok(())
    }

    fn fill_line(
        &mut self,
        scratch: &mut Scratch,
        layout: &Layout,
        rule: &PlanRule,
        arms: usize,
    ) -> Result<(), PlanError> {
        let Scratch { tiles, seen, ends, cuts, places } = scratch;
        cuts.clear();
        for arm in 0..arms {
            let (mut count, mut longest) = (0, 0);
            let blocks = seen.chunks_exact(arms).zip(&mut *places).map(|(seen, place)| {
                let blocks = is_run(seen, arm).then(|| u64::from(seen[arm].blocks()));
                place.pieces += u32::from(blocks.is_some());
                count += u64::from(blocks.is_some());
                longest = longest.max(blocks.unwrap_or(0));
                blocks
            });
            measure(ends, rule.cost, blocks)?;
            let line = Line::new(ends, rule, count, longest);
            let mut last = line.cut(0);
            cuts.push(last);
            for worker in 1..=line.workers() {
                let cut = line.cut(worker);
                if cut.block > 0 && cut != last {
                    places[cut.tile as usize].pieces += 1;
                }
                cuts.push(cut);
                last = cut;
            }
            let workers = line.workers() as u32;
            self.arm_counts.push(ArmCount { items: 0, workers });
        }
        place(self, layout, tiles, places, arms > 1)?;
        let mut cuts = cuts.iter();
        for arm in 0..arms {
            let first = self.items.len();
            let mut emit = Emit { layout, align: rule.kv_align.into(), items: &mut self.items };
            let Some(mut at) = cuts.next().copied() else { continue };
            self.workers.push(first as i32);
            for &to in cuts.by_ref().take(self.arm_counts[arm].workers as usize) {
                while at != to {
                    let tile = at.tile as usize;
                    let seen = &seen[tile * arms..][..arms];
                    let end = if at.tile < to.tile { seen[arm].blocks() } else { to.block };
                    if is_run(seen, arm) {
                        emit.piece(tiles[tile], seen[arm], &mut places[tile], at.block..end);
                    }
                    at = if at.tile < to.tile { super::line::Cut { tile: at.tile + 1, block: 0 } } else { to };
                }
                self.workers.push(emit.items.len() as i32);
            }
            self.arm_counts[arm].items = (self.items.len() - first) as u32;
        }
        Ok(())
    }

    fn fill_spans(
        &mut self,
        scratch: &mut Scratch,
        layout: &Layout,
        rule: &PlanRule,
        arms: usize,
        steps: Steps,
    ) -> Result<(), PlanError> {
        let Scratch { tiles, seen, places, .. } = scratch;
        for (seen, place) in seen.chunks_exact(arms).zip(&mut *places) {
            // fewer than 2^31 blocks in each of the few arms
            let count = |arm| if is_run(seen, arm) { steps.of(&seen[arm]).count() as u32 } else { 0 };
            place.pieces = (0..arms).map(count).sum();
        }
        place(self, layout, tiles, places, arms > 1)?;
        for arm in 0..arms {
            let (first, entries) = (self.items.len(), self.workers.len());
            let mut emit = Emit { layout, align: rule.kv_align.into(), items: &mut self.items };
            for ((tile, seen), place) in tiles.iter().zip(seen.chunks_exact(arms)).zip(&mut *places) {
                if is_run(seen, arm) {
                    let spans = steps.of(&seen[arm]);
                    for i in 0..spans.count() {
                        emit.piece(*tile, seen[arm], place, spans.get(i));
                    }
                }
            }
            let items = &mut self.items[first..];
            match rule.schedule {
                Schedule::LongestFirst => longest_first(items, first, &mut self.workers),
                Schedule::Fixed { .. } | Schedule::Line => in_order(items, first, rule, &mut self.workers),
            }
            let (items, workers) = (self.items.len() - first, self.workers.len() - entries - 1);
            self.arm_counts.push(ArmCount { items: items as u32, workers: workers as u32 });
        }
        Ok(())
    }
}

/// Whether an arm runs a tile: where it sees keys. Someone must write a tile of which no arm sees any, and the first does.
#[inline]
fn is_run(seen: &[Visible], arm: usize) -> bool {
    seen.len() == 1 || seen[arm].blocks() > 0 || (arm == 0 && seen.iter().all(|seen| seen.blocks() == 0))
}
