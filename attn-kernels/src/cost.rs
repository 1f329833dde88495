//! Measured costs of kernels.
//!
//! `attn calibrate` measures them on a GPU and writes `costs/ARCH.jsonl`; `cargo xtask costs` turns these files into
//! the table. The planner splits a batch by [`Costs::rule`], and [`KernelSelector`](crate::select::KernelSelector)
//! compares kernels by all costs.

mod decode_backend;
mod hook_class;
mod measured;
mod table;

use attn_core::plan::Cost;

use crate::kernel_traits::KernelTraits;

pub use hook_class::HookClass;
pub use measured::{COST_KEYS, Costs};

impl Costs {
    /// The costs of a kernel: those of the nearest row of the table, scaled to the traits if they are not the measured
    /// ones.
    #[must_use]
    pub fn of(traits: &KernelTraits, hooks: HookClass) -> Self {
        let first = &table::TABLE[0];
        let nearest = table::TABLE[1..].iter().fold((first.distance(traits, hooks), first), |best, row| {
            let distance = row.distance(traits, hooks);
            if distance < best.0 { (distance, row) } else { best }
        });
        match nearest {
            (0, row) => row.costs,
            (_, row) => row.scaled_to(traits),
        }
    }

    /// The costs that the planner uses, for blocks of `kv_align` keys. A decode tile is the only reader of its keys, so
    /// it bears the cost of their first read.
    #[must_use]
    pub fn rule(&self, traits: &KernelTraits, kv_align: u32) -> Cost {
        let first = if traits.has_workers() { self.first } else { 0 };
        let keys = u64::from(self.block) + u64::from(first);
        let block = (keys * u64::from(kv_align)).div_ceil(COST_KEYS.into());
        Cost { item: self.item, block: u32::try_from(block).unwrap_or(u32::MAX).max(1), merge: self.merge }
    }
}

#[cfg(test)]
mod tests;
