//! The mirror of `cuda/planner/params.cuh`, field by field, and what of it follows from a rule.

use attn_core::{
    batch::{BatchCapacity, BatchError, DeviceBatch, DevicePages, Ints},
    plan::{PlanError, PlanRoom, PlanRule, WorkItem},
    spec::Heads,
};
use bytemuck::{Pod, Zeroable};

use super::FastDiv;

/// Tiles are counted in the bits of a word above a sum of keys.
const MOST_TILES: u64 = (1 << 22) - 1;
/// The shared memory that the kernel that plans may take: most of what every GPU has.
pub const PLAN_SHARED_BYTES: usize = 96 << 10;
/// Bytes of the workspace for a [`PlanStatus`], before what does not fit shared memory.
pub const PLAN_STATUS_BYTES: usize = 256;

/// The first argument of the kernel that plans.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[allow(missing_docs)] // as in planner/params.cuh
pub struct PlanParams {
    pub qo_indptr: u64,
    pub kv_lens: u64,
    pub page_indptr: u64,
    pub page_indices: u64,
    pub to_qo_indptr: u64,
    pub to_kv_indptr: u64,
    pub to_page_indptr: u64,
    pub to_page_indices: u64,
    pub workers: u64,
    pub items: u64,
    pub merges: u64,
    pub status: u64,
    pub scratch: u64,
    pub requests: i32,
    pub room_requests: i32,
    pub room_items: i32,
    pub room_merges: i32,
    pub most_queries: i32,
    pub most_qo_tokens: i32,
    pub most_kv_tokens: i32,
    pub most_pages: i32,
    pub num_pages: i32,
    pub page_size: FastDiv,
    pub group: FastDiv,
    pub tile_rows: FastDiv,
    pub kv_align: FastDiv,
    pub workers_most: u32,
    pub shortest: u32,
    pub piece: u32,
    pub block: u32,
    pub spread: u32,
    pub qo_heads: i32,
    pub kv_heads: i32,
    pub page_stride: i64,
}

/// What the kernel that plans says of the batch, and what its CTAs tell each other: zeros before the first launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[allow(missing_docs)] // as in planner/params.cuh
pub struct PlanStatus {
    pub code: i32,
    pub index: i32,
    pub value: i32,
    pub other: i32,
    pub copied: u32,
    pub bad_page: u32,
}

impl PlanParams {
    /// All but addresses and requests: for batches within a capacity, cut by a rule whose schedule is a line.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] where sums may not fit: what a batch then says, only the host can tell.
    pub fn new(
        capacity: &BatchCapacity,
        room: &PlanRoom,
        rule: &PlanRule,
        heads: Heads,
    ) -> Result<PlanParams, PlanError> {
        let group = heads.group();
        let tiles = capacity.tiles(group, rule.tile_rows, None);
        let blocks = capacity.blocks(group, rule.tile_rows, None, rule.kv_align);
        let fits = |what, value: u64, most: u64| {
            if value <= most { Ok(()) } else { Err(PlanError::TooMany { what, value }) }
        };
        let rows = u64::from(capacity.qo_len) * u64::from(group);
        fits("packed rows of one request", rows, i32::MAX as u64)?;
        fits("query tiles", tiles, MOST_TILES)?;
        let cost = |count: u64, each: u32| u128::from(count) * u128::from(each);
        let cost = cost(tiles, rule.cost.piece) + cost(blocks, rule.cost.block);
        let cost = u64::try_from(cost).map_err(|_| PlanError::TooMany { what: "units of cost", value: u64::MAX })?;
        fits("units of cost", cost, i64::MAX as u64)?;
        let i32_of = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        Ok(PlanParams {
            room_requests: i32_of(room.requests),
            room_items: i32_of(room.items),
            room_merges: i32_of(room.merges),
            most_queries: capacity.qo_len as i32,
            most_qo_tokens: capacity.qo_tokens as i32,
            most_kv_tokens: capacity.flat_kv_tokens() as i32,
            most_pages: i32_of(room.pages.unwrap_or(0)),
            num_pages: capacity.pages.map_or(0, |pool| pool.num_pages as i32),
            page_size: FastDiv::new(capacity.pages.map_or(1, |pool| pool.page_size)),
            group: FastDiv::new(group),
            tile_rows: FastDiv::new(rule.tile_rows),
            kv_align: FastDiv::new(rule.kv_align),
            workers_most: rule.workers,
            shortest: rule.shortest() as u32, // from a u32
            piece: rule.cost.piece,
            block: rule.cost.block,
            spread: rule.cost.spread,
            qo_heads: heads.qo as i32,
            kv_heads: heads.kv as i32,
            page_stride: -1,
            ..PlanParams::default()
        })
    }

    /// What the kernel that only checks is told of a capacity: all but addresses and requests.
    #[must_use]
    pub fn for_checking(capacity: &BatchCapacity) -> PlanParams {
        let i32_of = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        PlanParams {
            most_queries: i32_of(capacity.qo_len),
            most_qo_tokens: i32_of(capacity.qo_tokens),
            most_kv_tokens: i32_of(capacity.flat_kv_tokens()),
            most_pages: i32::MAX,
            num_pages: capacity.pages.map_or(0, |pool| i32_of(pool.num_pages)),
            page_size: FastDiv::new(capacity.pages.map_or(1, |pool| pool.page_size.max(1))),
            page_stride: -1,
            ..PlanParams::default()
        }
    }

    /// The same for a batch whose arrays are at these addresses. Of a table in compressed rows no more entries are read than it has.
    ///
    /// # Errors
    ///
    /// Arrays that do not go together, or that are in memory of the host; more requests than the capacity, and pages in place of ragged keys or the other way round.
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
        let at = |array: &Ints<'_>| array.device_ptr().unwrap_or(0);
        let i32_of = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let of_batch = PlanParams {
            qo_indptr: at(&batch.qo_indptr),
            kv_lens: at(&batch.kv_lens),
            requests: i32_of(requests),
            ..self
        };
        Ok(match &batch.pages {
            None => of_batch,
            Some(DevicePages::Compressed { indptr, indices }) => PlanParams {
                page_indptr: at(indptr),
                page_indices: at(indices),
                most_pages: self.most_pages.min(i32_of(indices.len())),
                ..of_batch
            },
            Some(DevicePages::Padded { indices, max_pages }) => {
                PlanParams { page_indices: at(indices), page_stride: *max_pages as i64, ..of_batch }
            }
        })
    }

    /// Bytes that the kernel writes down on the way: what `PlanMemory` lays out.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        memory_bytes(self.room_items as usize, self.workers_most as usize)
    }

    /// Whether that fits the shared memory of every GPU.
    #[must_use]
    pub fn fits_shared_memory(&self) -> bool {
        self.memory_bytes() <= PLAN_SHARED_BYTES
    }

    /// Bytes of the workspace that planning on the device takes, with room for so many items and workers.
    #[must_use]
    pub fn workspace_bytes(items: usize, workers: usize) -> usize {
        let memory = memory_bytes(items, workers);
        PLAN_STATUS_BYTES + if memory > PLAN_SHARED_BYTES { memory } else { 0 }
    }
}

fn memory_bytes(items: usize, workers: usize) -> usize {
    // of a tile: an item, and where it ends; of an entry of workers: a piece, a cut, its first item, the first piece of a merge
    items * (size_of::<WorkItem>() + 8) + (workers + 1) * (16 + 8 + 4 + 4) + 16
}

impl PlanStatus {
    /// What was wrong with the batch.
    ///
    /// # Errors
    ///
    /// That.
    pub fn check(&self, params: &PlanParams) -> Result<(), BatchError> {
        let &PlanStatus { code, index, value, other, .. } = self;
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
            3 => past("queries in one request", params.most_queries),
            4 => past("queries", params.most_qo_tokens),
            5 => BatchError::KvLen { request: at, kv_len: value },
            6 => past("keys", params.most_kv_tokens),
            7 => BatchError::IndptrStart { array: "page_indptr", first: value },
            8 => order("page_indptr"),
            9 => past("entries of its page table", params.most_pages),
            10 => BatchError::FewPages {
                request: at,
                pages: value.unsigned_abs() as usize,
                kv_len: other.unsigned_abs(),
                page_size,
            },
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
#[allow(clippy::print_stderr)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Compiles assertions about every size and offset, with the header itself.
    #[cfg(feature = "jit")]
    #[test]
    fn the_mirror_is_exact() {
        let Ok(nvrtc) = crate::compile::nvrtc::Nvrtc::find() else {
            eprintln!("SKIPPED: no NVRTC found (cargo xtask test fetches it)");
            return;
        };
        let mut unit: String =
            [include_str!("../../cuda/abi/kernel_params.cuh"), include_str!("../../cuda/planner/params.cuh")].concat();
        unit = unit.replace("#pragma once", "").replace("#include \"abi/kernel_params.cuh\"", "");
        macro_rules! mirror {
            ($cuda:literal, $rust:ty { $($field:ident),* }) => {
                unit += &format!("static_assert(sizeof({}) == {}, \"size\");\n", $cuda, size_of::<$rust>());
                $(
                    unit += &format!(
                        "static_assert(__INTADDR__(&(({}*)0)->{}) == {}, \"offset\");\n",
                        $cuda, stringify!($field), offset_of!($rust, $field)
                    );
                )*
            };
        }
        mirror!("PlanStatus", PlanStatus { code, index, value, other, copied, bad_page });
        mirror!(
            "PlanParams",
            PlanParams {
                qo_indptr,
                kv_lens,
                page_indptr,
                page_indices,
                to_qo_indptr,
                to_kv_indptr,
                to_page_indptr,
                to_page_indices,
                workers,
                items,
                merges,
                status,
                scratch,
                requests,
                room_requests,
                room_items,
                room_merges,
                most_queries,
                most_qo_tokens,
                most_kv_tokens,
                most_pages,
                num_pages,
                page_size,
                group,
                tile_rows,
                kv_align,
                workers_most,
                shortest,
                piece,
                block,
                spread,
                qo_heads,
                kv_heads,
                page_stride
            }
        );
        let compiler = crate::compile::Compiler::Nvrtc(nvrtc);
        let arch = crate::compile::Arch::new(8, 0);
        compiler.compile("plan_abi", &unit, arch).expect("plan_abi.rs mirrors planner/params.cuh");
        let wrong = unit + "static_assert(sizeof(PlanParams) == 1, \"\");";
        compiler.compile("plan_abi", &wrong, arch).expect_err("assertions are compiled");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (heads, variant) = (Heads { qo: 8, kv: 1, head_dim: 64 }, attn_core::Variant::full());
        let cost = attn_core::plan::Cost { piece: 1000, block: 2000, spread: 100 };
        let schedule = attn_core::plan::Schedule::Line;
        let rule = PlanRule { tile_rows: 8, kv_align: 64, min_span: 128, workers: 132, cost, schedule };
        let of = |capacity: BatchCapacity, rule: &PlanRule| {
            PlanParams::new(&capacity, &PlanRoom::of(&capacity, &variant, heads, rule).expect("small"), rule, heads)
        };
        let many = BatchCapacity::new(1024, 1024, 1 << 20);
        let params = of(many, &rule).expect("small");
        assert!(params.fits_shared_memory(), "1024 requests take {} bytes", params.memory_bytes());
        assert_eq!(PlanParams::workspace_bytes(params.room_items as usize, 132), PLAN_STATUS_BYTES);
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
