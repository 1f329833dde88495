//! Decides whether a cascade runs with its levels, or as a flat batch.

use super::{
    MixedList, MixedRule,
    cut_tiles::{TileCutter, blocks},
    tile::Part,
};
use crate::{batch::Layout, expr::Variant, plan::PlanError, spec::Heads};

impl MixedList {
    /// The batch without levels, if it should run flat; `None` if it should run with its levels. A batch without levels
    /// is returned as it is. A cascade runs flat if it has a page table without levels ([`Layout::flattened`]) and one
    /// of these holds: the variant does not support levels, or reading shared keys once saves no more than the extra
    /// partial states cost. With levels each request has one partial state for each of its segments.
    ///
    /// The decision ignores the mask: both costs count all keys.
    ///
    /// # Errors
    ///
    /// As [`MixedList::build_for`], except for its errors on variants.
    pub fn flattened_if_cheaper(
        variant: &Variant,
        layout: &Layout,
        heads: Heads,
        rule: &MixedRule,
    ) -> Result<Option<Layout>, PlanError> {
        let group = heads.group();
        rule.check(group)?;
        let Some(flat) = layout.flattened() else { return Ok(None) };
        if !layout.has_levels() || Self::supports(variant, layout).is_err() {
            return Ok(Some(flat));
        }
        let (mut units, mut first_unit_of, mut tiles) = (Vec::new(), Vec::new(), Vec::new());
        let mut cutter =
            TileCutter { layout, rule, group, units: &mut units, first_unit_of: &mut first_unit_of, tiles: &mut tiles };
        cutter.cut_rows()?;
        Ok((!cutter.cascade_pays()).then_some(flat))
    }
}

/// The unit of [`CascadeCosts::decode_penalty`](super::CascadeCosts).
const PENALTY_UNIT: u64 = 1024;

impl TileCutter<'_> {
    /// Whether reading shared keys once saves more than it costs to have keys in segments.
    fn cascade_pays(&self) -> bool {
        let workers = u64::from(self.rule.decode.workers);
        let (mut saved, mut added) = (0u64, workers.saturating_mul(self.rule.cascade.merge_launch.into()));
        // segments that each request reads on its own, and the cost of their keys for decode requests
        let mut flat_segments = vec![0u64; self.layout.batch()];
        let mut decoded = 0u64;
        for segment in self.layout.segments() {
            let all = segment.first_request..segment.first_request + segment.requests;
            match self.shared_part(&all, segment) {
                Some(part) => {
                    saved = saved.saturating_add(self.flat_cost(&all, segment));
                    added = added.saturating_add(self.cascade_cost(&all, segment, part, self.packed_rows(&all)));
                }
                None => {
                    for request in all {
                        flat_segments[request] += 1;
                        if self.layout.qo_len(request) > 0 && self.part_of_request(request) == Part::Decode {
                            let of_keys =
                                blocks(segment, &self.rule.decode).saturating_mul(self.rule.decode.cost.block.into());
                            decoded = decoded.saturating_add(of_keys);
                        }
                    }
                }
            }
        }
        for (request, &flat_segments) in flat_segments.iter().enumerate() {
            let segments = self.layout.segments_of(request).count() as u64;
            if segments < 2 {
                continue;
            }
            let of_one = request..request + 1;
            let rule = self.rule_of(self.part_of_request(request));
            let tiles = self.packed_rows(&of_one).div_ceil(rule.tile_rows.into());
            let states = (self.units_of(&of_one).len() as u64).saturating_mul(self.rule.cascade.state.into());
            let item_costs =
                flat_segments.saturating_sub(1).saturating_mul(tiles).saturating_mul(rule.cost.item.into());
            added = added.saturating_add(flat_segments.saturating_mul(states)).saturating_add(item_costs);
        }
        let penalty = u64::from(self.rule.cascade.decode_penalty);
        saved > added.saturating_add(decoded.saturating_mul(penalty) / PENALTY_UNIT)
    }
}
