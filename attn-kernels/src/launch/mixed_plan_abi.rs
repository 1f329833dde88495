//! The parameters of the planner kernel of mixed lists, and their values for a capacity and a rule. CUDA has the struct
//! from here.
#![allow(missing_docs)] // of fields whose names say all

use attn_core::batch::BatchCapacity;
use attn_core::plan::{ListRule, MixedRule, PlanCapacity, PlanError};
use attn_core::spec::Heads;
use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

use super::plan_abi::{check_cost, check_most};
use super::{FastDiv, PlanParams};

/// The most rows of partial states, and of parts of merges: the kernel packs sums of both and of merges into one word,
/// `ROW_BITS` and `PART_BITS` of cuda/planner/mixed_states.cuh.
const MAX_STATES: [u64; 2] = [(1 << 24) - 1, (1 << 20) - 1];

/// The first parameter of the planner kernel of mixed lists. The base has the rule of the prefill part, and sections of
/// both parts. Planner kernels of flat lists take the base alone.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable, CudaStruct)]
pub struct MixedPlanParams {
    #[cuda(base)]
    pub base: PlanParams,
    /// `[capacity_segments]`.
    #[cuda("KvSegment*")]
    pub segments: u64,
    /// `[capacity_segments + 1]`.
    #[cuda("int*")]
    pub segment_ends: u64,
    /// `[capacity_queries]`.
    #[cuda("int*")]
    pub request_of_query: u64,
    /// `[capacity_merge_parts]`.
    #[cuda("int*")]
    pub merge_parts: u64,
    pub capacity_merge_parts: i32,
    /// At least `capacity_requests`.
    pub capacity_segments: i32,
    /// 0 for a capacity of one level.
    pub capacity_queries: i32,
    /// Of both parts.
    pub capacity_tiles: i32,
    /// Entries of `items` of the decode part; those of the prefill part follow.
    pub decode_items: i32,
    /// The most PackGQA rows of a request of the decode part.
    pub decode_rows: i32,
    pub decode_align: FastDiv,
    /// Of the device, as `max_workers`.
    pub decode_workers: u32,
    pub decode_min_split_blocks: u32,
    pub decode_item_cost: u32,
    pub decode_block_cost: u32,
    pub decode_merge_cost: u32,
    /// Workers of the decode part while prefill items fill the device.
    pub co_run_workers: u32,
    /// Whether a decode worker has a multiprocessor of its own.
    pub own_sms: u32,
}

impl MixedPlanParams {
    /// The parameters for batches within a capacity, without addresses and requests. Of a flat list they are those of
    /// [`PlanParams::new`].
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`] where sums may overflow on the device; such plans need the host.
    pub fn new(
        capacity: &BatchCapacity,
        lists: &PlanCapacity,
        rule: &ListRule,
        heads: Heads,
    ) -> Result<MixedPlanParams, PlanError> {
        let rule = match rule {
            ListRule::Mixed(rule) => rule,
            ListRule::Flat(rule) => {
                return Ok(MixedPlanParams { base: PlanParams::new(capacity, lists, rule, heads)?, ..Self::default() });
            }
        };
        let &MixedRule { decode, prefill, co_run_workers, own_sms, .. } = rule;
        let base = PlanParams::new(capacity, lists, &prefill, heads)?;
        // the sum of both parts' costs is counted, too
        let (group, most) = (heads.group(), i64::MAX as u64 / 2);
        let tiles = capacity.tiles(group, prefill.tile_rows, None);
        check_cost(tiles, capacity.blocks(group, prefill.tile_rows, None, prefill.kv_align), prefill.cost, most)?;
        check_cost(tiles, capacity.blocks(1, u32::MAX, None, decode.kv_align), decode.cost, most)?;
        let [rows, parts] = MAX_STATES;
        check_most("rows of partial states", lists.partial_rows as u64, rows)?;
        check_most("parts of merges", lists.merge_parts as u64, parts)?;
        let items = |part: usize| lists.parts.get(part).map_or(0, |part| part.items as i32);
        Ok(MixedPlanParams {
            base: PlanParams { capacity_items: items(0) + items(1), ..base },
            capacity_merge_parts: lists.merge_parts as i32,
            capacity_segments: lists.segments as i32,
            capacity_queries: lists.queries as i32,
            capacity_tiles: items(1).max(base.capacity_requests),
            decode_items: items(0),
            decode_rows: decode.tile_rows.min(i32::MAX as u32) as i32,
            decode_align: FastDiv::new(decode.kv_align),
            decode_workers: decode.workers,
            decode_min_split_blocks: decode.min_split_blocks(),
            decode_item_cost: decode.cost.item,
            decode_block_cost: decode.cost.block,
            decode_merge_cost: decode.cost.merge,
            co_run_workers,
            own_sms: own_sms.into(),
            ..Self::default()
        })
    }
}
