//! Measured costs of kernels.
//!
//! `attn calibrate` measures them on a GPU and writes JSON lines. Those of `costs/sm_90.jsonl` are built in; a
//! [`CostTable`] has those of other files before them. The planner splits a batch by [`Costs::rule`],
//! and [`KernelSelector`](crate::select::KernelSelector) compares kernels by all costs.

mod cost_key;
mod cost_table;
mod json_lines;
mod measured;

use attn_core::plan::{Cost, merge_steps};
use attn_core::spec::KernelKind;
use attn_core::{expr::Variant, lang::Hook};

pub use cost_key::{CostKernel, CostKey};
pub use cost_table::{CostTable, CostsError};
pub use measured::{COST_KEYS, Costs};

/// The hooks of a variant that run for every key or logit. Other hooks cost next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HookClass {
    /// None, apart from masks and hooks that run once per row.
    None,
    /// A `logits_transform`.
    Logits,
    /// A `key_transform`, a `value_transform` or KV formats, with or without a `logits_transform`.
    Rewrites,
}

impl HookClass {
    /// The class of a variant; for a union that of its most costly branch.
    #[must_use]
    pub fn of(variant: &Variant) -> Self {
        let rewrites = variant.has(Hook::KeyTransform) || variant.has(Hook::ValueTransform);
        match variant.has(Hook::LogitsTransform) {
            // rows of KV formats are decoded as hooks rewrite rows
            _ if rewrites || variant.kv_formats().is_some() => HookClass::Rewrites,
            true => HookClass::Logits,
            false => HookClass::None,
        }
    }
}

/// The steps of a merge of `count` partial states by a kernel, and the states that are merged one after the other: as
/// [`merge_steps`] where decode merges itself, one step in a launch of its own.
pub fn steps_of_merge(kind: KernelKind, count: u64) -> (u64, u64) {
    if kind == KernelKind::Decode { merge_steps(count) } else { (1, count) }
}

impl Costs {
    /// The costs that the planner uses, for blocks of `kv_align` keys. A tile of a kernel whose `tiles_read_alone` is
    /// the only reader of its keys, so it bears the cost of their first read.
    pub fn rule(&self, kv_align: u32, tiles_read_alone: bool) -> Cost {
        let first = if tiles_read_alone { self.first } else { 0 };
        let keys = u64::from(self.block) + u64::from(first);
        let block = (keys * u64::from(kv_align)).div_ceil(COST_KEYS.into());
        Cost { item: self.item, block: u32::try_from(block).unwrap_or(u32::MAX).max(1), merge: self.merge }
    }
}

#[cfg(test)]
mod tests;
