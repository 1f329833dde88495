//! The cost model of cascades: which requests share a tile, and whether a cascade runs with its levels at all.

use std::ops::Range;

use super::merge_units;
use super::rule::{DECODE, PREFILL};
use super::{CascadePolicy, ListRule, MERGE_ROWS, MixedRule, PlanError, PlanRule, WorkList};
use crate::batch::{KvSegment, Layout};
use crate::expr::Variant;
use crate::spec::Heads;

pub(crate) use device::CUDA;
use device::{first_read, keys_cost, tiles_cost};

/// The unit of [`CascadeCosts::decode_penalty`](super::CascadeCosts).
const PENALTY_UNIT: u64 = 1024;

impl WorkList {
    /// The batch without levels, if it should run flat; `None` if it should run with its levels. A batch without levels
    /// is returned as it is. A cascade runs flat if it has a page table without levels ([`Layout::flattened`]) and one
    /// of these holds: the variant does not support levels, or reading shared keys once saves no more than the extra
    /// partial states cost. With levels each request has one partial state for each of its segments.
    ///
    /// The decision ignores the mask: both costs count all keys.
    ///
    /// # Errors
    ///
    /// The errors of [`WorkList::build_for`], except for those on variants.
    pub fn flattened_if_cheaper(
        variant: &Variant,
        layout: &Layout,
        heads: Heads,
        rule: &MixedRule,
    ) -> Result<Option<Layout>, PlanError> {
        let model = CascadeModel { layout, rule, group: heads.group() };
        ListRule::Mixed(*rule).check(model.group)?;
        let Some(flat) = layout.flattened() else { return Ok(None) };
        let runs_flat = !layout.has_levels() || Self::supports(variant, true).is_err() || !model.cascade_pays();
        Ok(runs_flat.then_some(flat))
    }
}

/// The costs of a cascade under a rule.
pub(super) struct CascadeModel<'a> {
    pub(super) layout: &'a Layout,
    pub(super) rule: &'a MixedRule,
    pub(super) group: u32,
}

impl CascadeModel<'_> {
    fn packed_rows(&self, requests: &Range<usize>) -> u64 {
        let ends = self.layout.qo_indptr();
        (ends[requests.end] - ends[requests.start]) as u64 * u64::from(self.group)
    }

    pub(super) fn part_of_request(&self, request: usize) -> u32 {
        let packed = self.packed_rows(&(request..request + 1));
        self.rule.part_of(u32::try_from(packed).unwrap_or(u32::MAX))
    }

    /// The units of rows that are merged together.
    fn units(&self, requests: &Range<usize>) -> u64 {
        let of_request = |request: usize| {
            let tile_rows = self.rule.of_part(self.part_of_request(request)).tile_rows;
            // no more than `i32` counts
            u64::from(merge_units::count(self.packed_rows(&(request..request + 1)) as u32, tile_rows))
        };
        requests.clone().map(of_request).sum()
    }

    /// The part in which all rows of a group run in shared tiles, or `None` if each request runs on its own.
    pub(super) fn shared_part(&self, requests: &Range<usize>, segment: &KvSegment) -> Option<u32> {
        let requests_with_queries = requests.clone().filter(|&request| self.layout.qo_len(request) > 0).count();
        if requests_with_queries < 2 || self.rule.cascade.policy == CascadePolicy::Never {
            return None;
        }
        // a tile has whole units, so the largest unit must fit
        if self.rule.prefill.tile_rows < self.rule.decode.tile_rows.min(MERGE_ROWS) {
            return None;
        }
        let part = self.part_of_group(requests);
        let pays = || self.cascade_cost(requests, segment, part) < self.flat_cost(requests, segment);
        (self.rule.cascade.policy == CascadePolicy::Always || pays()).then_some(part)
    }

    fn part_of_group(&self, requests: &Range<usize>) -> u32 {
        if self.packed_rows(requests) <= self.rule.decode.tile_rows.into() { DECODE } else { PREFILL }
    }

    /// The cost of the group in shared tiles: the tiles, keys that are read for the first time, and one more partial
    /// state for each unit of rows.
    fn cascade_cost(&self, requests: &Range<usize>, segment: &KvSegment, part: u32) -> u64 {
        let rule = self.rule.of_part(part);
        let tiles = self.packed_rows(requests).div_ceil(rule.tile_rows.into());
        let first = if part == DECODE { 0 } else { self.first_read(segment) }; // decode blocks include the first read
        tiles_cost(tiles, rule.cost.item.into(), blocks(segment, rule), rule.cost.block.into())
            .saturating_add(self.units(requests).saturating_mul(self.rule.cascade.state.into()))
            .saturating_add(first)
    }

    /// The cost if each request reads the segment itself. The keys lengthen tiles that exist anyway. The first request
    /// reads them from device memory, the others from the L2 cache.
    fn flat_cost(&self, requests: &Range<usize>, segment: &KvSegment) -> u64 {
        let costs = requests.clone().map(|request| {
            let part = self.part_of_request(request);
            let rule = self.rule.of_part(part);
            let cached = if part == DECODE { self.rule.cascade.cached_block } else { u32::MAX };
            let tiles = self.packed_rows(&(request..request + 1)).div_ceil(rule.tile_rows.into());
            keys_cost(tiles, segment.keys as u64, cached.min(rule.cost.block).into(), rule.kv_align.into())
        });
        costs.fold(self.first_read(segment), u64::saturating_add)
    }

    /// The extra cost of keys that come from device memory instead of the L2 cache.
    fn first_read(&self, segment: &KvSegment) -> u64 {
        let decode = &self.rule.decode;
        first_read(blocks(segment, decode), decode.cost.block.into(), self.rule.cascade.cached_block.into())
    }

    /// Whether reading shared keys once saves more than it costs to have keys in segments.
    fn cascade_pays(&self) -> bool {
        let workers = u64::from(self.rule.decode.workers);
        let (mut saved, mut added) = (0u64, workers.saturating_mul(self.rule.cascade.merge_launch.into()));
        // segments that each request reads on its own, and the cost of their keys for decode requests
        let mut own_segments = vec![0u64; self.layout.batch()];
        let mut decoded = 0u64;
        for segment in self.layout.segments() {
            let all = segment.requests();
            if let Some(part) = self.shared_part(&all, segment) {
                saved = saved.saturating_add(self.flat_cost(&all, segment));
                added = added.saturating_add(self.cascade_cost(&all, segment, part));
                continue;
            }
            for request in all {
                own_segments[request] += 1;
                if self.layout.qo_len(request) > 0 && self.part_of_request(request) == DECODE {
                    let decode = &self.rule.decode;
                    decoded = decoded.saturating_add(blocks(segment, decode).saturating_mul(decode.cost.block.into()));
                }
            }
        }
        for (request, &own) in own_segments.iter().enumerate() {
            if self.layout.segments_of(request).count() < 2 {
                continue;
            }
            let of_one = request..request + 1;
            let rule = self.rule.of_part(self.part_of_request(request));
            let tiles = self.packed_rows(&of_one).div_ceil(rule.tile_rows.into());
            let states = self.units(&of_one).saturating_mul(self.rule.cascade.state.into());
            let items = own.saturating_sub(1).saturating_mul(tiles).saturating_mul(rule.cost.item.into());
            added = added.saturating_add(own.saturating_mul(states)).saturating_add(items);
        }
        let penalty = decoded.saturating_mul(self.rule.cascade.decode_penalty.into()) / PENALTY_UNIT;
        saved > added.saturating_add(penalty)
    }
}

/// Blocks of a segment under the rule of a part.
fn blocks(segment: &KvSegment, rule: &PlanRule) -> u64 {
    u64::from((segment.keys as u32).div_ceil(rule.kv_align))
}

/// The costs of keys that requests share, for the host and for the planner kernel of cascades.
#[allow(unreachable_pub)] // private to the plan
#[attn_macros::device_mod(namespace = "lang::cascade_cost", include = "lang/int_fn.cuh")]
mod device {
    /// Tiles of `blocks` blocks each.
    pub fn tiles_cost(tiles: u64, item: u64, blocks: u64, block: u64) -> u64 {
        tiles.saturating_mul(item.saturating_add(blocks.saturating_mul(block)))
    }

    /// Keys that lengthen tiles; a block has `align` keys.
    pub fn keys_cost(tiles: u64, keys: u64, block: u64, align: u64) -> u64 {
        tiles.saturating_mul(keys).saturating_mul(block) / align
    }

    /// Blocks that come from device memory instead of the L2 cache.
    pub fn first_read(blocks: u64, block: u64, cached_block: u64) -> u64 {
        blocks.saturating_mul(block.saturating_sub(cached_block))
    }
}
