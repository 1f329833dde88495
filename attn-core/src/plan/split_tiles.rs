//! Splits tiles whose visible keys are known, and writes the work list.

use super::{
    BranchCount, PlanError, PlanRule, PlanScratch, Schedule, WorkList,
    item_writer::ItemWriter,
    kv_splits::{SplitSize, in_order, longest_first},
    slots::{TileSlots, assign_slots},
    stream_k::{Cut, StreamK, tile_ends},
    visible::VisibleBlocks,
};
use crate::batch::Layout;

impl WorkList {
    /// Splits the tiles in `scratch` and writes the list, except for [`WorkList::lists`].
    pub(super) fn split_tiles(
        &mut self,
        scratch: &mut PlanScratch,
        layout: &Layout,
        group: u32,
        rule: &PlanRule,
        branches: usize,
    ) -> Result<(), PlanError> {
        (self.tile_rows, self.group) = (rule.tile_rows, group);
        self.items.clear();
        self.workers.clear();
        self.branch_counts.clear();
        self.merges.clear();
        scratch.tile_slots.clear();
        scratch.tile_slots.resize(scratch.tiles.len(), TileSlots::default());
        match rule.schedule {
            Schedule::StreamK => {
                self.split_stream_k(scratch, rule, branches)?;
                assign_slots(self, layout, &scratch.tiles, &mut scratch.tile_slots, branches > 1)?;
                self.write_stream_k(scratch, layout, rule, branches);
            }
            Schedule::LongestFirst => {
                let split_size = SplitSize::equal(rule, scratch.tiles.len(), &scratch.visible);
                self.write_splits(scratch, layout, rule, branches, split_size)?;
            }
            Schedule::FixedSplit { keys } => {
                self.write_splits(scratch, layout, rule, branches, SplitSize::multiples(rule, keys))?;
            }
        }
        if branches == 1 {
            self.branch_counts.clear();
        }
        Ok(())
    }

    /// Cuts the tiles of each branch by stream-K, and counts the splits of tiles and the workers of branches.
    fn split_stream_k(&mut self, scratch: &mut PlanScratch, rule: &PlanRule, branches: usize) -> Result<(), PlanError> {
        let PlanScratch { visible, ends, cuts, tile_slots, .. } = scratch;
        cuts.clear();
        for branch in 0..branches {
            let (mut count, mut longest) = (0, 0);
            let blocks = visible.chunks_exact(branches).zip(&mut *tile_slots).map(|(visible, slots)| {
                let blocks = runs_tile(visible, branch).then(|| u64::from(visible[branch].blocks()));
                slots.splits += u32::from(blocks.is_some());
                count += u64::from(blocks.is_some());
                longest = longest.max(blocks.unwrap_or(0));
                blocks
            });
            tile_ends(ends, rule.cost, blocks)?;
            let stream_k = StreamK::new(ends, rule, count, longest);
            let mut last = stream_k.cut(0);
            cuts.push(last);
            for worker in 1..=stream_k.workers() {
                let cut = stream_k.cut(worker);
                if cut.block > 0 && cut != last {
                    tile_slots[cut.tile as usize].splits += 1;
                }
                cuts.push(cut);
                last = cut;
            }
            self.branch_counts.push(BranchCount { items: 0, workers: stream_k.workers() as u32 });
        }
        Ok(())
    }

    /// Walks over the tiles of each branch from cut to cut and writes their items.
    fn write_stream_k(&mut self, scratch: &mut PlanScratch, layout: &Layout, rule: &PlanRule, branches: usize) {
        let PlanScratch { tiles, visible, cuts, tile_slots, .. } = scratch;
        let mut cuts = cuts.iter();
        for (branch, count) in self.branch_counts.iter_mut().enumerate() {
            let first = self.items.len();
            let mut writer = ItemWriter { layout, align: rule.kv_align.into(), items: &mut self.items };
            let Some(mut at) = cuts.next().copied() else { continue };
            self.workers.push(first as i32);
            for &to in cuts.by_ref().take(count.workers as usize) {
                while at != to {
                    let tile = at.tile as usize;
                    let visible = &visible[tile * branches..][..branches];
                    let (end, next) = match at.tile < to.tile {
                        true => (visible[branch].blocks(), Cut { tile: at.tile + 1, block: 0 }),
                        false => (to.block, to),
                    };
                    if runs_tile(visible, branch) {
                        writer.write(tiles[tile], visible[branch], &mut tile_slots[tile], at.block..end);
                    }
                    at = next;
                }
                self.workers.push(writer.items.len() as i32);
            }
            count.items = (self.items.len() - first) as u32;
        }
    }

    /// Splits each tile on its own, and assigns its items to workers.
    fn write_splits(
        &mut self,
        scratch: &mut PlanScratch,
        layout: &Layout,
        rule: &PlanRule,
        branches: usize,
        split_size: SplitSize,
    ) -> Result<(), PlanError> {
        let PlanScratch { tiles, visible, tile_slots, .. } = scratch;
        for (visible, slots) in visible.chunks_exact(branches).zip(&mut *tile_slots) {
            // at most 2^31 blocks in each of the few branches
            let count = |branch| {
                if runs_tile(visible, branch) { split_size.splits_of(&visible[branch]).count() as u32 } else { 0 }
            };
            slots.splits = (0..branches).map(count).sum();
        }
        assign_slots(self, layout, tiles, tile_slots, branches > 1)?;
        for branch in 0..branches {
            let (first, entries) = (self.items.len(), self.workers.len());
            let mut writer = ItemWriter { layout, align: rule.kv_align.into(), items: &mut self.items };
            for ((tile, visible), slots) in tiles.iter().zip(visible.chunks_exact(branches)).zip(&mut *tile_slots) {
                if runs_tile(visible, branch) {
                    let splits = split_size.splits_of(&visible[branch]);
                    for i in 0..splits.count() {
                        writer.write(*tile, visible[branch], slots, splits.get(i));
                    }
                }
            }
            let items = &mut self.items[first..];
            match rule.schedule {
                Schedule::LongestFirst => longest_first(items, first, &mut self.workers),
                Schedule::FixedSplit { .. } | Schedule::StreamK => in_order(items, first, rule, &mut self.workers)?,
            }
            let (items, workers) = (self.items.len() - first, self.workers.len() - entries - 1);
            self.branch_counts.push(BranchCount { items: items as u32, workers: workers as u32 });
        }
        Ok(())
    }
}

/// Whether a branch runs a tile: it does if keys of the tile are visible in it. A tile without visible keys in any
/// branch is run by the first branch, since one item must write its output.
#[inline]
fn runs_tile(visible: &[VisibleBlocks], branch: usize) -> bool {
    visible.len() == 1
        || visible[branch].blocks() > 0
        || (branch == 0 && visible.iter().all(|visible| visible.blocks() == 0))
}
