//! Cutting tiles whose keys are known, and writing the list.

use super::{
    ArmCount, PlanError, PlanRule, Schedule, Scratch, WorkList,
    emit::Emit,
    line::{Cut, Line, measure},
    place::{Place, place},
    spans::{Steps, in_order, longest_first},
    visible::Visible,
};
use crate::batch::Layout;

impl WorkList {
    /// Cuts the tiles in `scratch`, and writes the list; all but [`WorkList::lists`].
    pub(super) fn fill(
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
            Schedule::Line => {
                self.cut_lines(scratch, rule, arms)?;
                place(self, layout, &scratch.tiles, &mut scratch.places, arms > 1)?;
                self.write_lines(scratch, layout, rule, arms);
            }
            Schedule::LongestFirst => {
                let steps = Steps::equal(rule, scratch.tiles.len(), &scratch.seen);
                self.write_spans(scratch, layout, rule, arms, steps)?;
            }
            Schedule::Fixed { keys } => {
                self.write_spans(scratch, layout, rule, arms, Steps::multiples(rule, keys))?;
            }
        }
        if arms == 1 {
            self.arm_counts.clear();
        }
        Ok(())
    }

    /// Cuts the line of each arm, and counts the pieces of tiles and the workers of arms.
    fn cut_lines(&mut self, scratch: &mut Scratch, rule: &PlanRule, arms: usize) -> Result<(), PlanError> {
        let Scratch { seen, ends, cuts, places, .. } = scratch;
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
            self.arm_counts.push(ArmCount { items: 0, workers: line.workers() as u32 });
        }
        Ok(())
    }

    /// Walks along the line of each arm, from cut to cut.
    fn write_lines(&mut self, scratch: &mut Scratch, layout: &Layout, rule: &PlanRule, arms: usize) {
        let Scratch { tiles, seen, cuts, places, .. } = scratch;
        let mut cuts = cuts.iter();
        for (arm, count) in self.arm_counts.iter_mut().enumerate() {
            let first = self.items.len();
            let mut emit = Emit { layout, align: rule.kv_align.into(), items: &mut self.items };
            let Some(mut at) = cuts.next().copied() else { continue };
            self.workers.push(first as i32);
            for &to in cuts.by_ref().take(count.workers as usize) {
                while at != to {
                    let tile = at.tile as usize;
                    let seen = &seen[tile * arms..][..arms];
                    let (end, next) = match at.tile < to.tile {
                        true => (seen[arm].blocks(), Cut { tile: at.tile + 1, block: 0 }),
                        false => (to.block, to),
                    };
                    if is_run(seen, arm) {
                        emit.piece(tiles[tile], seen[arm], &mut places[tile], at.block..end);
                    }
                    at = next;
                }
                self.workers.push(emit.items.len() as i32);
            }
            count.items = (self.items.len() - first) as u32;
        }
    }

    /// Cuts each tile by itself, and deals its items.
    fn write_spans(
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
                Schedule::Fixed { .. } | Schedule::Line => in_order(items, first, rule, &mut self.workers)?,
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
