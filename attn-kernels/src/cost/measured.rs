//! Measured costs of kernels, and their scaling to kernels that were not measured.

use super::{CostKey, HookClass};

/// Costs of keys are per this number of keys.
pub const COST_KEYS: u32 = 64;

/// Costs of a kernel in nanoseconds of a CTA while all SMs are busy, unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
pub struct Costs {
    /// A run with next to no work, from its first launch to its end.
    pub launch: u32,
    /// Prologue and epilogue of a work item.
    pub item: u32,
    /// [`COST_KEYS`] keys of a tile.
    pub block: u32,
    /// `COST_KEYS` keys once, however many tiles read them: the load from device memory, and any preprocessing.
    pub first: u32,
    /// A step of a merge, without the cost of its partial states.
    pub merge_launch: u32,
    /// One more partial state that a step merges.
    pub merge: u32,
    /// CTAs that shared an SM in the measurement.
    pub ctas_per_sm: u32,
}

/// One row of the table: the costs of a kernel that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// The kernel. Its architecture is that of the GPU, whatever devices a cubin runs on: `sm_90` for Hopper.
    pub(super) key: CostKey,
    /// The class of its hooks.
    pub(super) hooks: HookClass,
    /// What was measured.
    pub(super) costs: Costs,
}

impl Measured {
    /// Whether both rows are of the same kernel on the same architecture.
    pub(super) fn is_of_kernel_of(&self, other: &Measured) -> bool {
        let key = CostKey { ctas_per_sm: self.key.ctas_per_sm, ..other.key };
        (self.key, self.hooks) == (key, other.hooks)
    }

    /// How much a kernel differs from that of the row: in the kernel first, then in architecture, hooks, element types,
    /// rows and head_dim. 0 for the kernel of the row.
    pub(super) fn distance(&self, key: &CostKey, hooks: HookClass) -> u64 {
        let steps = |a: u32, b: u32| u64::from(a.max(1).ilog2().abs_diff(b.max(1).ilog2()));
        let own = &self.key;
        let differences = [
            own.kernel as u64 ^ key.kernel as u64,
            own.arch.major().abs_diff(key.arch.major()).into(),
            own.arch.minor().abs_diff(key.arch.minor()).into(),
            (self.hooks as u64).abs_diff(hooks as u64),
            steps(own.kv_bits, key.kv_bits),
            steps(own.rows, key.rows),
            steps(own.head_dim, key.head_dim),
        ];
        differences.into_iter().fold(0, |distance, step| distance << 8 | step)
    }

    /// The costs, scaled to another kernel. The cost of keys is proportional to the bytes of K and V (decode) or to the
    /// MMA operations (prefill), and to the CTAs per SM.
    pub(super) fn scaled_to(&self, key: &CostKey) -> Costs {
        let read = |of: &CostKey| u64::from(of.kv_bytes);
        let mma_ops = |of: &CostKey| u64::from(of.rows) * u64::from(of.row_products);
        let scaled = |cost: u32, amount: &dyn Fn(&CostKey) -> u64| {
            let [more, less] = [key, &self.key].map(|of| amount(of) * u64::from(of.ctas_per_sm));
            let less = less.max(1);
            u32::try_from((u64::from(cost) * more + less / 2) / less).unwrap_or(u32::MAX)
        };
        let block = scaled(self.costs.block, if key.kernel.is_decode() { &read } else { &mma_ops });
        let first = scaled(self.costs.first, &read);
        Costs { block, first, ctas_per_sm: key.ctas_per_sm, ..self.costs }
    }
}
