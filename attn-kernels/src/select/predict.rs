//! The predicted time of a batch in each kernel, from measured costs.

use attn_core::{plan::share_to_merge, spec::KernelKind};

use super::selected::SelectedKernel;
use crate::cost::{COST_KEYS, Costs, steps_of_merge};
use crate::kernel_traits::KernelTraits;
use crate::plan_rules::min_span;

/// A kernel that a batch may run, with its costs on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) kernel: SelectedKernel,
    pub(super) tile_rows: u64,
    /// Resident CTAs per KV head, or clusters.
    pub(super) workers: u64,
    /// Waves of CTAs until every KV head has had a worker: more than 1 if there are more KV heads than resident CTAs.
    pub(super) waves: u64,
    pub(super) costs: Costs,
}

/// The size of a batch in units of a candidate's tiles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BatchSize {
    /// Q tiles.
    pub(super) tiles: u64,
    /// Keys that tiles read, summed over all tiles.
    pub(super) tile_keys: u128,
    /// Keys of all requests.
    pub(super) keys: u64,
    /// Keys of the longest request.
    pub(super) longest: u64,
}

/// Predicted times that differ by less than one part in `MARGIN` count as equal.
pub(super) const MARGIN: u64 = 16;

impl BatchSize {
    /// Adds a request.
    pub(super) fn add(&mut self, tiles: u64, keys: u64) {
        self.tiles += tiles;
        self.tile_keys += u128::from(tiles) * u128::from(keys);
        self.keys += keys;
        self.longest = self.longest.max(keys);
    }
}

impl Candidate {
    /// A kernel with its costs, on a device with this many SMs.
    pub(super) fn of(traits: &KernelTraits, costs: Costs, kv_heads: u32, multiprocessors: u32) -> Self {
        let (ctas, kv_heads) = (costs.ctas_per_sm * multiprocessors / traits.facts().cluster_ctas, kv_heads.max(1));
        Candidate {
            kernel: SelectedKernel::of(traits),
            tile_rows: traits.facts().tile_rows.into(),
            workers: u64::from(ctas / kv_heads).max(1),
            waves: kv_heads.div_ceil(ctas.max(1)).into(),
            costs,
        }
    }

    /// Nanoseconds of CTA time for one KV head.
    fn total(&self, size: &BatchSize) -> u64 {
        let Costs { item, block, first, .. } = self.costs;
        let of_keys = |keys: u128, cost: u32| {
            u64::try_from(keys.saturating_mul(cost.into()) / u128::from(COST_KEYS)).unwrap_or(u64::MAX)
        };
        (size.tiles.saturating_mul(item.into()))
            .saturating_add(of_keys(size.tile_keys, block))
            .saturating_add(of_keys(size.keys.into(), first))
    }

    /// Nanoseconds of SM time for one KV head.
    pub(super) fn busy(&self, size: &BatchSize) -> u64 {
        self.total(size) / u64::from(self.costs.ctas_per_sm.max(1))
    }

    /// Nanoseconds of a whole tile that sees this many keys.
    pub(super) fn tile(&self, keys: u64) -> u64 {
        self.total(&BatchSize { tiles: 1, tile_keys: keys.into(), keys, longest: keys })
    }

    /// The predicted time of a run, in nanoseconds.
    pub(super) fn time(&self, size: &BatchSize) -> u64 {
        let Costs { launch, merge_launch, merge, .. } = self.costs;
        let [launch, merge_launch, merge] = [launch, merge_launch, merge].map(u64::from);
        if size.tiles == 0 {
            return launch;
        }
        let (total, longest) = (self.total(size), self.tile(size.longest));
        // the time of a worker if tiles are split
        let min_keys = min_span(self.kernel.kind == KernelKind::Decode).into();
        let split = || (total / self.workers).max(longest.min(self.tile(min_keys)));
        let share = match self.kernel.kind {
            KernelKind::Decode => split().max(share_to_merge(longest, merge).min(longest)),
            // tiles are not split; a worker runs `each` whole tiles
            KernelKind::Prefill if size.tiles >= self.workers => {
                let each = size.tiles.div_ceil(self.workers);
                longest.max((u128::from(total) * u128::from(each) / u128::from(size.tiles)) as u64)
            }
            KernelKind::Prefill | KernelKind::Mixed => split(),
        };
        let time = launch.saturating_add(share.saturating_mul(self.waves));
        if share >= longest {
            return time;
        }
        let (steps, partials) = steps_of_merge(self.kernel.kind, longest.div_ceil(share.max(1)));
        time.saturating_add(steps * merge_launch).saturating_add(partials.saturating_mul(merge))
    }
}
