//! KV splits at a fixed step (equal splits of each tile, or multiples of a number of keys), and the assignment of items
//! to workers.

use std::{cmp::Reverse, ops::Range};

use super::search::last_true;
use super::stream_k::{COST_OVERFLOW, share};
use super::tile::VisibleBlocks;
use super::{PlanError, PlanRule, WorkItem};

/// The visible blocks of a tile, cut at `first`, `first + step`, ...
#[derive(Clone, Copy)]
pub(super) struct KvSplits {
    begin: u64,
    end: u64,
    first: u64,
    step: u64,
}

/// How long the KV splits of a tile are.
#[derive(Clone, Copy, Debug)]
pub(super) enum SplitSize {
    /// Equal splits of at most `max_blocks` blocks, but of at least `min_blocks`.
    Equal { max_blocks: u64, min_blocks: u64 },
    /// Cuts at multiples of this many blocks of the request.
    Multiples(u64),
}

impl SplitSize {
    /// Equal splits of tiles with `lengths` blocks, about as many in total as there are workers; no tile is split if
    /// there are at least as many tiles as workers.
    pub(super) fn equal<L: Iterator<Item = u64>>(rule: &PlanRule, tiles: usize, lengths: impl Fn() -> L) -> Self {
        let min_blocks = rule.min_split_blocks();
        let longest = lengths().max().unwrap_or(0).max(1);
        let workers = u64::from(rule.workers);
        if tiles as u64 >= workers {
            return SplitSize::Equal { max_blocks: longest, min_blocks };
        }
        // the shortest split for which there are no more items than workers
        let items = |max_blocks: u64| -> u64 { lengths().map(|blocks| blocks.div_ceil(max_blocks).max(1)).sum() };
        let spare = longest.saturating_sub(min_blocks);
        let max_blocks = longest - last_true(spare, &|shorter| shorter == 0 || items(longest - shorter) <= workers);
        SplitSize::Equal { max_blocks, min_blocks }
    }

    /// Cuts at multiples of `keys` keys, rounded up to whole blocks.
    pub(super) fn multiples(rule: &PlanRule, keys: u32) -> Self {
        SplitSize::Multiples(u64::from(keys.div_ceil(rule.kv_align)))
    }

    /// The splits of a tile.
    pub(super) fn splits_of(self, visible: &VisibleBlocks) -> KvSplits {
        let (begin, end) = (u64::from(visible.begin), u64::from(visible.end));
        let (first, step) = match self {
            SplitSize::Equal { max_blocks, min_blocks } => {
                let blocks = end - begin;
                let each = blocks.div_ceil(blocks.div_ceil(max_blocks).min(blocks / min_blocks).max(1)).max(1);
                (begin + each, each)
            }
            SplitSize::Multiples(step) => ((begin / step + 1) * step, step),
        };
        KvSplits { begin, end, first, step }
    }
}

impl KvSplits {
    /// Number of splits: a tile without visible keys has one empty split.
    pub(super) fn count(&self) -> u64 {
        1 + self.end.saturating_sub(self.first).div_ceil(self.step)
    }

    /// Blocks of split `i`, counted from the first visible block of the tile.
    pub(super) fn get(&self, i: u64) -> Range<u32> {
        let begin = if i == 0 { self.begin } else { self.first + (i - 1) * self.step };
        let end = (self.first + i * self.step).min(self.end);
        (begin - self.begin) as u32..(end - self.begin) as u32
    }
}

/// Sorts items, of which each has a worker of its own, longest first. Equally long items keep their order.
pub(super) fn longest_first(items: &mut [WorkItem]) {
    items.sort_unstable_by_key(|item| {
        (Reverse(item.kv_end - item.kv_begin), item.request, item.first_row, item.kv_begin)
    });
}

/// Sorts items of the prefill part of a mixed list: those of the longest request first, of a request the longest first.
///
/// Few CTAs run this part, and the decode part streams its keys through L2. So tiles that read the same keys run at the
/// same time: otherwise each of them reads these keys from memory again.
pub(super) fn by_request(items: &mut [WorkItem]) {
    items.sort_unstable_by_key(|item| {
        let length = item.kv_end - item.kv_begin;
        (Reverse(item.kv_len), item.request, Reverse(length), item.first_row, item.kv_begin)
    });
}

/// Assigns items to workers in order, at about equal cost. An item belongs to the worker in whose share of the total
/// cost it begins.
pub(super) fn in_order(
    items: &[WorkItem],
    first: usize,
    rule: &PlanRule,
    workers: &mut Vec<i32>,
) -> Result<(), PlanError> {
    let cost = |item: &WorkItem| {
        let blocks = ((item.kv_end - item.kv_begin) as u64).div_ceil(rule.kv_align.into());
        u64::from(rule.cost.item) + blocks * u64::from(rule.cost.block)
    };
    let total = items.iter().try_fold(0u64, |total, item| total.checked_add(cost(item))).ok_or(COST_OVERFLOW)?;
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
