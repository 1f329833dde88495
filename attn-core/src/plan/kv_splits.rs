//! KV splits at a fixed step (equal splits of each tile, or multiples of a number of keys), and the assignment of items
//! to workers.

use std::{cmp::Reverse, ops::Range};

use super::search::last_true;
use super::stream_k::{COST_OVERFLOW, share};
use super::tile::VisibleBlocks;
use super::{PlanError, PlanRule, WorkItem};

pub(crate) use device::CUDA;
pub(super) use device::KvSplits;

/// How long the KV splits of a tile are.
#[derive(Clone, Copy, Debug)]
pub(super) enum SplitSize {
    /// Equal splits of at most `max_blocks` blocks, but of at least `min_blocks`.
    Equal { max_blocks: u32, min_blocks: u32 },
    /// Cuts at multiples of this many blocks of the request.
    Multiples(u32),
}

impl SplitSize {
    /// Equal splits of tiles with `lengths` blocks, about as many in total as there are workers; no tile is split if
    /// there are at least as many tiles as workers.
    pub(super) fn equal<L: Iterator<Item = u32>>(rule: &PlanRule, tiles: usize, lengths: impl Fn() -> L) -> Self {
        let min_blocks = rule.min_split_blocks();
        let longest = lengths().max().unwrap_or(0).max(1);
        if tiles as u64 >= u64::from(rule.workers) {
            return SplitSize::Equal { max_blocks: longest, min_blocks };
        }
        // the shortest split for which there are no more items than workers
        let items = |max_blocks: u32| lengths().map(|blocks| u64::from(device::splits_of(blocks, max_blocks))).sum();
        let fits = |max_blocks: u32| -> bool { u64::from(rule.workers) >= items(max_blocks) };
        let spare = longest.saturating_sub(min_blocks);
        let shorter = last_true(spare.into(), &|shorter| shorter == 0 || fits(longest - shorter as u32));
        SplitSize::Equal { max_blocks: longest - shorter as u32, min_blocks }
    }

    /// The splits of a tile.
    pub(super) fn splits_of(self, visible: &VisibleBlocks) -> KvSplits {
        let VisibleBlocks { begin, end, .. } = *visible;
        match self {
            SplitSize::Equal { max_blocks, min_blocks } => device::equal(begin, end, max_blocks, min_blocks),
            SplitSize::Multiples(step) => device::at_multiples(begin, end, step),
        }
    }
}

impl KvSplits {
    /// Number of splits: a tile without visible keys has one empty split.
    pub(super) fn count(self) -> u32 {
        device::count(self)
    }

    /// Blocks of split `i`, counted from the first visible block of the tile.
    pub(super) fn get(self, i: u32) -> Range<u32> {
        device::split_begin(self, i)..device::split_end(self, i)
    }
}

/// The splits of a tile, for the host and for the planner kernel. There are fewer than 2^31 blocks.
#[allow(unreachable_pub)] // private to the plan
#[attn_macros::device_mod(namespace = "lang::kv_splits", include = "lang/int_fn.cuh")]
mod device {
    /// The visible blocks of a tile, cut at `first`, `first + step`, ...
    #[derive(Clone, Copy)]
    pub struct KvSplits {
        pub begin: u32,
        pub end: u32,
        pub first: u32,
        pub step: u32,
    }

    /// The least number of splits of up to `most` blocks; a tile without blocks has one.
    pub fn splits_of(blocks: u32, most: u32) -> u32 {
        blocks.div_ceil(most).max(1)
    }

    /// Splits of about the same length: of at most `most` blocks, but of at least `least`.
    pub fn equal(begin: u32, end: u32, most: u32, least: u32) -> KvSplits {
        let blocks = end - begin;
        let count = splits_of(blocks, most).min(blocks / least).max(1);
        let each = blocks.div_ceil(count).max(1);
        KvSplits { begin, end, first: begin + each, step: each }
    }

    /// Splits at multiples of `step` blocks of the request.
    pub fn at_multiples(begin: u32, end: u32, step: u32) -> KvSplits {
        KvSplits { begin, end, first: (begin / step + 1) * step, step }
    }

    pub fn count(splits: KvSplits) -> u32 {
        1 + splits.end.saturating_sub(splits.first).div_ceil(splits.step)
    }

    /// The first block of a split, counted from the first of the tile.
    pub fn split_begin(splits: KvSplits, i: u32) -> u32 {
        if i == 0 { 0 } else { splits.first + (i - 1) * splits.step - splits.begin }
    }

    /// One past the last block of a split, counted from the first of the tile.
    pub fn split_end(splits: KvSplits, i: u32) -> u32 {
        (splits.first + i * splits.step).min(splits.end) - splits.begin
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
