//! Cuts at a fixed step: equal spans of each tile, or multiples of a number of keys; and who runs them.

use std::{cmp::Reverse, ops::Range};

use super::{
    PlanError, PlanRule, WorkItem,
    line::{TOO_COSTLY, share},
    search::last_true,
    visible::Visible,
};

/// The blocks of a tile, cut at `first`, `first + step`, ..
#[derive(Clone, Copy)]
pub(super) struct Spans {
    begin: u64,
    end: u64,
    first: u64,
    step: u64,
}

/// Where tiles are cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Steps {
    /// Into as many equal spans as have `span` blocks or fewer, but at least `shortest`.
    Equal { span: u64, shortest: u64 },
    /// At multiples of so many blocks.
    Multiples(u64),
}

impl Steps {
    /// Equal spans, about as many in all as there are workers; none of a tile is cut where there are as many tiles.
    pub(super) fn equal(rule: &PlanRule, tiles: usize, seen: &[Visible]) -> Self {
        let shortest = rule.shortest();
        let lengths = || seen.iter().map(|seen| u64::from(seen.blocks()));
        let longest = lengths().max().unwrap_or(0).max(1);
        let workers = u64::from(rule.workers);
        if tiles as u64 >= workers {
            return Steps::Equal { span: longest, shortest };
        }
        // the shortest span for which there are no more items than workers
        let items = |span: u64| -> u64 { lengths().map(|blocks| blocks.div_ceil(span).max(1)).sum() };
        let spare = longest.saturating_sub(shortest);
        let span = longest - last_true(spare, &|shorter| shorter == 0 || items(longest - shorter) <= workers);
        Steps::Equal { span, shortest }
    }

    /// Multiples of so many keys.
    pub(super) fn multiples(rule: &PlanRule, keys: u32) -> Self {
        Steps::Multiples(u64::from(keys.div_ceil(rule.kv_align)))
    }

    /// The spans of a tile.
    pub(super) fn of(self, seen: &Visible) -> Spans {
        let (begin, end) = (u64::from(seen.begin), u64::from(seen.end));
        let (first, step) = match self {
            Steps::Equal { span, shortest } => {
                let blocks = end - begin;
                let each = blocks.div_ceil(blocks.div_ceil(span).min(blocks / shortest).max(1)).max(1);
                (begin + each, each)
            }
            Steps::Multiples(step) => ((begin / step + 1) * step, step),
        };
        Spans { begin, end, first, step }
    }
}

impl Spans {
    /// How many; one of no blocks where nothing is seen.
    pub(super) fn count(&self) -> u64 {
        1 + self.end.saturating_sub(self.first).div_ceil(self.step)
    }

    /// Span `i`, counted from the first block that the tile sees.
    pub(super) fn get(&self, i: u64) -> Range<u32> {
        let begin = if i == 0 { self.begin } else { self.first + (i - 1) * self.step };
        let end = (self.first + i * self.step).min(self.end);
        (begin - self.begin) as u32..(end - self.begin) as u32
    }
}

/// One item a worker, longest first; equally long ones stay in order.
pub(super) fn longest_first(items: &mut [WorkItem], first: usize, workers: &mut Vec<i32>) {
    items.sort_unstable_by_key(|item| {
        (Reverse(item.kv_end - item.kv_begin), item.request, item.first_row, item.kv_begin)
    });
    workers.extend(first as i32..=(first + items.len()) as i32);
}

/// Items in order, about equal costs to each worker: an item belongs to the worker in whose share it begins.
pub(super) fn in_order(
    items: &[WorkItem],
    first: usize,
    rule: &PlanRule,
    workers: &mut Vec<i32>,
) -> Result<(), PlanError> {
    let cost = |item: &WorkItem| {
        let blocks = ((item.kv_end - item.kv_begin) as u64).div_ceil(rule.kv_align.into());
        u64::from(rule.cost.piece) + blocks * u64::from(rule.cost.block)
    };
    let total = items.iter().try_fold(0u64, |total, item| total.checked_add(cost(item))).ok_or(TOO_COSTLY)?;
    let count = (items.len() as u64).clamp(1, rule.workers.into());
    let (mut begin, mut worker) = (0, 1);
    workers.push(first as i32);
    for (i, item) in items.iter().enumerate() {
        while worker < count && share(total, worker, count) <= begin {
            workers.push((first + i) as i32);
            worker += 1;
        }
        begin += cost(item);
    }
    workers.extend((worker..=count).map(|_| (first + items.len()) as i32));
    Ok(())
}
