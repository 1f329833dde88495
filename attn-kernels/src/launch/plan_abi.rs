//! The parameters of the planner kernel, and their values for a capacity and a rule. CUDA has these structs from here.
#![allow(missing_docs)] // of fields whose names say all

use attn_core::batch::{BatchCapacity, BatchError, DeviceBatch, DevicePages, I32Slice};
use attn_core::plan::{Cost, PlanCapacity, PlanError, PlanRule};
use attn_core::spec::Heads;
use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

use super::FastDiv;

/// The most tiles of a plan. The kernel packs the number of tiles (22 bits) and a sum of keys into one word.
const MAX_TILES: u64 = (1 << 22) - 1;
/// Bytes of the workspace for a [`PlanStatus`]; planning memory that exceeds shared memory follows.
pub const PLAN_STATUS_BYTES: usize = 256;

/// The first parameter of the planner kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct PlanParams {
    /// `[requests + 1]`.
    #[cuda("const int*")]
    pub qo_indptr: u64,
    /// `[requests]`.
    #[cuda("const int*")]
    pub kv_lens: u64,
    /// `[requests + 1]`; null: padded rows, or ragged keys.
    #[cuda("const int*")]
    pub page_indptr: u64,
    /// `[page_indptr[requests]]`, or `[requests][page_stride]`.
    #[cuda("const int*")]
    pub page_indices: u64,
    /// `[capacity_requests + 1]`.
    #[cuda("int*")]
    pub to_qo_indptr: u64,
    #[cuda("int*")]
    pub to_kv_indptr: u64,
    #[cuda("int*")]
    pub to_page_indptr: u64,
    #[cuda("int*")]
    pub to_page_indices: u64,
    /// `[workers]` WorkerStart.
    #[cuda("int4*")]
    pub workers: u64,
    /// `[capacity_items]` WorkItem.
    #[cuda("int4*")]
    pub items: u64,
    /// `[capacity_merges]` MergeItem.
    #[cuda("int4*")]
    pub merges: u64,
    #[cuda("PlanStatus*")]
    pub status: u64,
    /// PlannerScratch, SplitScratch or MixedScratch; null: in shared memory.
    #[cuda("void*")]
    pub scratch: u64,
    /// The order of items; null: in shared memory.
    #[cuda("unsigned long long*")]
    pub order: u64,
    /// SplitTile, as many as a batch may have tiles; null: never more than a CTA finds alone.
    #[cuda("void*")]
    pub found: u64,
    pub requests: i32,
    pub capacity_requests: i32,
    pub capacity_items: i32,
    pub capacity_merges: i32,
    /// Entries of `workers`; 0: each item has a worker of its own.
    pub capacity_workers: i32,
    /// Of one request.
    pub max_queries: i32,
    pub max_qo_tokens: i32,
    pub max_kv_tokens: i32,
    /// Of the page table.
    pub max_page_entries: i32,
    /// Of the pool.
    pub num_pages: i32,
    pub page_size: FastDiv,
    pub group: FastDiv,
    pub tile_rows: FastDiv,
    pub kv_align: FastDiv,
    pub max_workers: u32,
    /// KV blocks of the shortest split.
    pub min_split_blocks: u32,
    /// KV blocks between fixed cuts; 0: without fixed cuts.
    pub fixed_split_blocks: u32,
    /// In units of cost.
    pub item_cost: u32,
    pub block_cost: u32,
    pub merge_cost: u32,
    pub qo_heads: i32,
    pub kv_heads: i32,
    /// Entries between padded rows of the page table; -1: compressed rows or ragged keys.
    pub page_stride: i64,
}

/// The status that the planner kernel writes, and the state that its CTAs share. Zero before the first launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, CudaStruct)]
pub struct PlanStatus {
    /// A `Fault`.
    pub code: i32,
    pub index: i32,
    pub value: i32,
    pub other: i32,
    /// CTAs that have copied their part of the page table; in the upper half those that have found their tiles.
    pub copied: u32,
    /// ~index of the first entry that is not a page; 0: none.
    pub first_bad_page: u32,
}

pub(super) fn check_most(what: &'static str, value: u64, most: u64) -> Result<(), PlanError> {
    if value <= most { Ok(()) } else { Err(PlanError::TooMany { what, value }) }
}

/// Checks that the costs of so many items and blocks are at most `most`.
pub(super) fn check_cost(items: u64, blocks: u64, cost: Cost, most: u64) -> Result<(), PlanError> {
    let of = |count: u64, each: u32| u128::from(count) * u128::from(each);
    let all = of(items, cost.item) + of(blocks, cost.block);
    check_most("units of cost", u64::try_from(all).unwrap_or(u64::MAX), most)
}

impl PlanParams {
    /// The parameters for batches within a capacity, without addresses and requests.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] where sums may overflow on the device; such plans need the host.
    pub fn new(
        capacity: &BatchCapacity,
        lists: &PlanCapacity,
        rule: &PlanRule,
        heads: Heads,
    ) -> Result<PlanParams, PlanError> {
        let group = heads.group();
        let tiles = capacity.tiles(group, rule.tile_rows, None);
        let blocks = capacity.blocks(group, rule.tile_rows, None, rule.kv_align);
        let rows = u64::from(capacity.qo_len) * u64::from(group);
        check_most("PackGQA rows of one request", rows, i32::MAX as u64)?;
        check_most("query tiles", tiles, MAX_TILES)?;
        check_cost(tiles, blocks, rule.cost, i64::MAX as u64)?;
        let i32_of = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        Ok(PlanParams {
            capacity_requests: i32_of(lists.requests),
            capacity_items: i32_of(lists.parts.first().map_or(0, |part| part.items)),
            capacity_merges: i32_of(lists.merges),
            capacity_workers: i32_of(lists.parts.first().map_or(0, |part| part.workers)),
            max_queries: capacity.qo_len as i32,
            max_qo_tokens: capacity.qo_tokens as i32,
            max_kv_tokens: capacity.flat_kv_tokens() as i32,
            max_page_entries: i32_of(lists.pages.unwrap_or(0)),
            num_pages: capacity.pages.map_or(0, |pool| pool.num_pages as i32),
            page_size: FastDiv::new(capacity.pages.map_or(1, |pool| pool.page_size)),
            group: FastDiv::new(group),
            tile_rows: FastDiv::new(rule.tile_rows),
            kv_align: FastDiv::new(rule.kv_align),
            max_workers: rule.workers,
            min_split_blocks: rule.min_split_blocks(),
            fixed_split_blocks: rule.fixed_split_blocks(),
            item_cost: rule.cost.item,
            block_cost: rule.cost.block,
            merge_cost: rule.cost.merge,
            qo_heads: heads.qo as i32,
            kv_heads: heads.kv as i32,
            page_stride: -1,
            ..PlanParams::default()
        })
    }

    /// The parameters of the kernel that only checks, without addresses and requests.
    pub fn for_checking(capacity: &BatchCapacity) -> PlanParams {
        let i32_of = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        PlanParams {
            max_queries: i32_of(capacity.qo_len),
            max_qo_tokens: i32_of(capacity.qo_tokens),
            max_kv_tokens: i32_of(capacity.flat_kv_tokens()),
            max_page_entries: i32::MAX,
            num_pages: capacity.pages.map_or(0, |pool| i32_of(pool.num_pages)),
            page_size: FastDiv::new(capacity.pages.map_or(1, |pool| pool.page_size.max(1))),
            page_stride: -1,
            ..PlanParams::default()
        }
    }

    /// The parameters with the addresses of a batch. The kernel reads no more entries of a CSR page table than it has.
    ///
    /// # Errors
    ///
    /// Arrays that do not fit each other or that are in host memory; more requests than the capacity; pages instead of
    /// ragged keys, or ragged keys instead of pages.
    pub fn of_batch(self, batch: &DeviceBatch<'_>, capacity: &BatchCapacity) -> Result<PlanParams, BatchError> {
        let requests = batch.requests()?;
        if requests > capacity.requests as usize {
            let capacity = capacity.requests;
            return Err(BatchError::Capacity { what: "requests", count: requests, capacity });
        }
        let how = |paged: bool| if paged { "in pages" } else { "ragged" }.to_owned();
        let (got, want) = (batch.pages.is_some(), capacity.pages.is_some());
        if got != want {
            return Err(BatchError::OtherKeys { got: how(got), want: how(want) });
        }
        let at = |array: &I32Slice<'_>| array.device_ptr().unwrap_or(0);
        let i32_of = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let of_batch = PlanParams {
            qo_indptr: at(&batch.qo_indptr),
            kv_lens: at(&batch.kv_lens),
            requests: i32_of(requests),
            max_qo_tokens: batch
                .qo_tokens
                .map_or(self.max_qo_tokens, |most| self.max_qo_tokens.min(i32_of(most as usize))),
            ..self
        };
        Ok(match &batch.pages {
            None => of_batch,
            Some(DevicePages::Compressed { indptr, indices }) => PlanParams {
                page_indptr: at(indptr),
                page_indices: at(indices),
                max_page_entries: self.max_page_entries.min(i32_of(indices.len())),
                ..of_batch
            },
            Some(DevicePages::Padded { indices, max_pages }) => {
                PlanParams { page_indices: at(indices), page_stride: *max_pages as i64, ..of_batch }
            }
        })
    }
}

impl PlanStatus {
    /// Returns the error of the batch, if it had one.
    ///
    /// # Errors
    ///
    /// The error that the host would return for the batch.
    pub fn check(&self, params: &PlanParams) -> Result<(), BatchError> {
        let &PlanStatus { code, index, value, other, .. } = self;
        // a fault of a level has the number of the level before it
        if let Ok(level) = usize::try_from((code >> 8) - 1) {
            let error = PlanStatus { code: code & 0xff, ..*self }.check(params).err().map(Box::new);
            return error.map_or(Ok(()), |error| Err(BatchError::CascadeLevel { level, error }));
        }
        let (at, page_size) = (usize::try_from(index).unwrap_or(0), params.page_size.divisor);
        let order = |array| BatchError::IndptrNotMonotone { array, index: at, value, before: other };
        let past = |what, capacity: i32| BatchError::Capacity {
            what,
            count: usize::try_from(value).unwrap_or(0),
            capacity: capacity.unsigned_abs(),
        };
        Err(match code {
            0 => return Ok(()),
            1 => BatchError::IndptrStart { array: "qo_indptr", first: value },
            2 => order("qo_indptr"),
            3 => past("queries in one request", params.max_queries),
            4 => past("queries", params.max_qo_tokens),
            5 => BatchError::KvLen { request: at, kv_len: value },
            6 => past("keys", if other > 0 { other } else { params.max_kv_tokens }),
            7 => BatchError::IndptrStart { array: "page_indptr", first: value },
            8 => order("page_indptr"),
            9 => past("entries of its page table", if other > 0 { other } else { params.max_page_entries }),
            10 => BatchError::FewPages {
                request: at,
                pages: value.unsigned_abs() as usize,
                kv_len: other.unsigned_abs(),
                page_size,
            },
            12 => BatchError::LevelEnd { value, want: other },
            13 => BatchError::GroupCutsRequest { index: at, value, request: usize::try_from(other).unwrap_or(0) },
            14 => BatchError::NotNested { group: at, request: usize::try_from(other).unwrap_or(0) },
            15 => past("tokens of k and v", other),
            _ => {
                let (page, num_pages) = (value, params.num_pages.unsigned_abs());
                match usize::try_from(other) {
                    Ok(row) if row > 0 => {
                        BatchError::BlockTablePage { request: at / row, index: at % row, page, num_pages }
                    }
                    _ => BatchError::PageOutOfPool { index: at, page, num_pages },
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::PlannerScratch;

    #[test]
    fn what_does_not_fit_is_refused() {
        let (heads, variant) = (Heads { qo: 8, kv: 1, head_dim: 64 }, attn_core::Variant::full());
        let cost = attn_core::plan::Cost { item: 1000, block: 2000, merge: 100 };
        let schedule = attn_core::plan::Schedule::StreamK;
        let rule = PlanRule { tile_rows: 8, kv_align: 64, min_span: 128, workers: 132, cost, schedule };
        let of = |capacity: BatchCapacity, rule: &PlanRule| {
            PlanParams::new(
                &capacity,
                &PlanCapacity::of(&capacity, &variant, heads, &(*rule).into()).expect("small"),
                rule,
                heads,
            )
        };
        let many = BatchCapacity::new(1024, 1024, 1 << 20);
        of(many, &rule).expect("small");
        let lists = PlanCapacity::of(&many, &variant, heads, &rule.into()).expect("small");
        let scratch = PlannerScratch::of(&lists, &rule.into());
        assert_eq!(scratch.shared_and_workspace().1, 0, "1024 requests take {scratch:?}");
        let tiles = of(BatchCapacity::new(1 << 23, 1 << 23, 1 << 23), &rule).expect_err("tiles");
        assert!(matches!(tiles, PlanError::TooMany { what: "query tiles", .. }), "{tiles}");
        let costly = PlanRule { kv_align: 1, cost: attn_core::plan::Cost { block: u32::MAX, ..cost }, ..rule };
        let units = of(BatchCapacity::decode(64, 1 << 29), &costly);
        units.expect("2^61");
        let long = BatchCapacity::new(1 << 10, 1 << 20, (1 << 30) - 1);
        let units = of(long, &costly).expect_err("cost");
        assert!(matches!(units, PlanError::TooMany { what: "units of cost", .. }), "{units}");
    }
}
