//! The parameters of the planner kernel of cascades, and their values for a capacity, a rule and a batch. CUDA has the
//! structs from here.
#![allow(missing_docs)] // of fields whose names say all

use attn_core::batch::{BatchCapacity, BatchError, DeviceBatch, DevicePages, I32Slice};
use attn_core::plan::{CascadePolicy, MixedRule, PlanCapacity, PlanError};
use attn_core::spec::Heads;
use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

use super::plan_abi::{check_cost, check_most};
use super::{MixedPlanParams, PlanParams};

/// The most levels of a batch that the device plans, the requests' own keys among them.
pub const MAX_DEVICE_LEVELS: usize = 8;

/// The tables of a level.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct LevelTables {
    /// `[groups + 1]`.
    #[cuda("const int*")]
    pub qo_indptr: u64,
    /// `[groups]`.
    #[cuda("const int*")]
    pub kv_lens: u64,
    /// `[groups + 1]`; null: padded rows, or ragged keys.
    #[cuda("const int*")]
    pub page_indptr: u64,
    /// `[page_indptr[groups]]`, or `[groups][page_stride]`.
    #[cuda("const int*")]
    pub page_indices: u64,
    /// Entries between padded rows; -1: compressed rows or ragged keys.
    pub page_stride: i64,
    pub groups: i32,
    /// Groups of the levels before.
    pub first_group: i32,
    /// Of `page_indices` in compressed rows.
    pub page_entries: i32,
    pub _pad: i32,
}

/// The first parameter of the planner kernel of cascades. The base is that of batches without levels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct CascadePlanParams {
    #[cuda(base)]
    pub base: MixedPlanParams,
    /// The level of the requests' own keys is the last.
    pub tables: [LevelTables; 8],
    /// `[capacity_groups]` entries of the plan's page table where the pages of a group begin; -1: it has none there.
    #[cuda("int*")]
    pub group_pages: u64,
    pub levels: i32,
    /// Of all levels.
    pub groups: i32,
    /// Levels and groups of the largest batch.
    pub capacity_levels: i32,
    pub capacity_groups: i32,
    /// Merge units of the largest batch.
    pub capacity_units: i32,
    /// Of ragged k and v.
    pub max_memory_tokens: i32,
    /// A `CascadePolicy`.
    pub policy: i32,
    /// Of CascadeCosts.
    pub state_cost: u32,
    pub cached_block: u32,
    pub _pad: i32,
}

impl CascadePlanParams {
    /// The parameters for batches within a capacity with levels, without base, addresses and batch.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] where sums may overflow on the device, or where keys to sort items by do not fit 64 bits;
    /// such plans need the host.
    pub fn new(
        capacity: &BatchCapacity,
        lists: &PlanCapacity,
        rule: &MixedRule,
        heads: Heads,
    ) -> Result<CascadePlanParams, PlanError> {
        let items: u64 = lists.parts.iter().map(|part| part.items as u64).sum();
        for rule in [&rule.decode, &rule.prefill] {
            let blocks = items.saturating_mul(u64::from(capacity.kv_tokens).div_ceil(rule.kv_align.into()));
            check_cost(items, blocks, rule.cost, i64::MAX as u64 / 2)?;
        }
        let bits = |n: u64| u64::from(u64::BITS - n.leading_zeros());
        let rows = u64::from(capacity.qo_tokens) * u64::from(heads.group());
        // `sort_numbers` of cuda/planner/sort.cuh
        let most = u64::BITS - 9;
        check_most("bits of a weight to sort items by", bits(capacity.kv_tokens.into()) + bits(rows), most.into())?;
        let groups = lists.levels.saturating_mul(lists.requests);
        check_most("groups of all levels", groups as u64, i32::MAX as u64)?;
        let tokens = capacity.kv_memory_tokens.unwrap_or(capacity.kv_tokens);
        Ok(CascadePlanParams {
            capacity_levels: lists.levels as i32,
            capacity_groups: groups as i32,
            capacity_units: lists.merges as i32,
            max_memory_tokens: i32::try_from(tokens).unwrap_or(i32::MAX),
            policy: match rule.cascade.policy {
                CascadePolicy::Never => 0,
                CascadePolicy::Always => 1,
                CascadePolicy::Auto => 2,
            },
            state_cost: rule.cascade.state,
            cached_block: rule.cascade.cached_block,
            ..Self::default()
        })
    }

    /// The parameters with the addresses of a batch with levels, where the base has the addresses of the plan. The
    /// kernel reads no more entries of a compressed page table than it has.
    ///
    /// # Errors
    ///
    /// Those of [`PlanParams::of_batch`], also of a level; more levels than the capacity, or than the device plans.
    pub fn of_batch(self, batch: &DeviceBatch<'_>, capacity: &BatchCapacity) -> Result<Self, BatchError> {
        let base = self.base.base.of_batch(batch, capacity)?;
        // a key that requests share counts once for each; the plan's page table has pages of all levels; a tile is an
        // item at least
        let PlanParams { max_page_entries, .. } = self.base.base;
        let base = PlanParams { max_kv_tokens: capacity.kv_tokens as i32, max_page_entries, ..base };
        let base = MixedPlanParams { base, capacity_tiles: base.capacity_items, ..self.base };
        let levels = batch.levels.len() + 1;
        let most = capacity.levels.min(MAX_DEVICE_LEVELS as u32);
        if capacity.levels <= 1 {
            return Err(BatchError::LevelsInCapacity);
        }
        if levels > most as usize {
            let what = if most < capacity.levels { "levels (on the device)" } else { "levels" };
            return Err(BatchError::Capacity { what, count: levels, capacity: most });
        }
        let own = batch.with_levels(&[]);
        let mut of_batch = CascadePlanParams { base, ..self };
        let mut first = 0;
        for ((level, of), tables) in batch.levels.iter().chain([&own]).enumerate().zip(&mut of_batch.tables) {
            let groups = of.requests()?;
            if groups > capacity.requests as usize {
                let error = BatchError::Capacity { what: "groups", count: groups, capacity: capacity.requests };
                return Err(BatchError::CascadeLevel { level, error: Box::new(error) });
            }
            *tables = LevelTables::of(of, groups as i32, first);
            first += groups as i32;
        }
        (of_batch.levels, of_batch.groups) = (levels as i32, first);
        Ok(of_batch)
    }
}

impl LevelTables {
    fn of(level: &DeviceBatch<'_>, groups: i32, first_group: i32) -> Self {
        let at = |array: &I32Slice<'_>| array.device_ptr().unwrap_or(0);
        let tables = LevelTables {
            qo_indptr: at(&level.qo_indptr),
            kv_lens: at(&level.kv_lens),
            page_stride: -1,
            groups,
            first_group,
            ..LevelTables::default()
        };
        match &level.pages {
            None => tables,
            Some(DevicePages::Compressed { indptr, indices }) => LevelTables {
                page_indptr: at(indptr),
                page_indices: at(indices),
                page_entries: i32::try_from(indices.len()).unwrap_or(i32::MAX),
                ..tables
            },
            Some(DevicePages::Padded { indices, max_pages }) => {
                LevelTables { page_indices: at(indices), page_stride: *max_pages as i64, ..tables }
            }
        }
    }
}
