//! Whether a cascade is worth its levels.

use super::{
    MixedList, MixedRule,
    tiles::{Part, Tiles, blocks},
};
use crate::{batch::Layout, expr::Variant, plan::PlanError, spec::Heads};

impl MixedList {
    /// The batch without levels, where it should be run so: where it has a table without levels ([`Layout::flattened`]), and either the variant cannot
    /// run with levels, or sharing keys saves no more than the states cost that the rows of a request then have, one for each of its segments. A batch
    /// that has no levels is given back as it is; `None`: levels pay, or must be run as such.
    ///
    /// What a mask leaves out is not known here: its costs are those of all keys, on both sides.
    ///
    /// # Errors
    ///
    /// As [`MixedList::build_for`], but for what it refuses of variants.
    pub fn flat_instead(
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
        let (mut units, mut unit_of, mut tiles) = (Vec::new(), Vec::new(), Vec::new());
        let mut cutting = Tiles { layout, rule, group, units: &mut units, unit_of: &mut unit_of, tiles: &mut tiles };
        cutting.cut_rows()?;
        Ok((!cutting.levels_pay()).then_some(flat))
    }
}

/// [`SharedRule::slower`](super::SharedRule) counts these.
const SLOWER_PARTS: u64 = 1024;

impl Tiles<'_> {
    /// Whether sharing saves more than it costs that keys come in segments.
    fn levels_pay(&self) -> bool {
        let workers = u64::from(self.rule.decode.workers);
        let (mut saved, mut added) = (0u64, workers.saturating_mul(self.rule.shared.launch.into()));
        // segments that each request reads by itself, and what their keys cost where requests decode
        let mut apart = vec![0u64; self.layout.batch()];
        let mut decoded = 0u64;
        for segment in self.layout.segments() {
            let all = segment.first_request..segment.first_request + segment.requests;
            match self.sharing(&all, segment) {
                Some(part) => {
                    saved = saved.saturating_add(self.cost_apart(&all, segment));
                    added = added.saturating_add(self.cost_together(&all, segment, part, self.packed(&all)));
                }
                None => {
                    for request in all {
                        apart[request] += 1;
                        if self.layout.qo_len(request) > 0 && self.part_of_request(request) == Part::Decode {
                            let of_keys =
                                blocks(segment, &self.rule.decode).saturating_mul(self.rule.decode.cost.block.into());
                            decoded = decoded.saturating_add(of_keys);
                        }
                    }
                }
            }
        }
        for (request, &apart) in apart.iter().enumerate() {
            let segments = self.layout.segments_of(request).count() as u64;
            if segments < 2 {
                continue;
            }
            let of_one = request..request + 1;
            let rule = self.rule_of(self.part_of_request(request));
            let tiles = self.packed(&of_one).div_ceil(rule.tile_rows.into());
            let states = (self.units_of(&of_one).len() as u64).saturating_mul(self.rule.shared.state.into());
            let pieces = apart.saturating_sub(1).saturating_mul(tiles).saturating_mul(rule.cost.piece.into());
            added = added.saturating_add(apart.saturating_mul(states)).saturating_add(pieces);
        }
        let slower = u64::from(self.rule.shared.slower);
        saved > added.saturating_add(decoded.saturating_mul(slower) / SLOWER_PARTS)
    }
}
