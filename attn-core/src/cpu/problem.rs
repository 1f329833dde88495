//! Inputs of the CPU backend, and rules that plan for it.

use super::{CpuError, threads};
use crate::batch::Layout;
use crate::expr::Variant;
use crate::lang::{Hook, Normalizer};
use crate::plan::{
    CascadeCosts, CascadePolicy, Cost, ListRule, MixedRule, PlanError, PlanRule, PlanScratch, Schedule, WorkList,
};
use crate::spec::{HeadDimVo, Heads};
use crate::tensor::{Kv, TensorRef};

/// Keys that are loaded, transformed and multiplied at a time.
pub(super) const BLOCK: usize = 64;

/// One attention over one batch.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// The variant to compute, bound to its parameters.
    pub variant: &'a Variant,
    /// Head counts and head dimension, any that [`Heads::check`] allows.
    pub heads: Heads,
    /// Head dimension of values, and where values are stored.
    pub head_dim_vo: HeadDimVo,
    /// Softmax scale: `q . k` is multiplied by it.
    pub sm_scale: f32,
    /// The batch.
    pub layout: &'a Layout,
    /// The work list; [`oracle`](super::oracle) does not read it.
    pub work: &'a WorkList,
    /// (qo tokens, qo heads, head_dim) in host memory.
    pub q: TensorRef<'a>,
    /// Keys and values in host memory.
    pub kv: Kv<'a>,
}

/// A rule for plans that keep all threads of this machine busy.
pub fn plan_rule(heads: Heads) -> PlanRule {
    let threads = threads::count();
    PlanRule {
        tile_rows: 64,
        kv_align: BLOCK as u32,
        min_span: 1024,
        workers: (4 * threads).div_ceil(heads.kv.max(1)).max(1),
        cost: Cost::BLOCKS,
        schedule: Schedule::LongestFirst,
    }
}

/// A rule for mixed plans that keep all threads of this machine busy. Its costs are rough: reading and transforming a
/// block of keys takes about as long as its GEMM with a tile of few rows.
pub fn mixed_rule(heads: Heads) -> MixedRule {
    let prefill = plan_rule(heads);
    let cost = Cost { item: 1, block: 2, merge: 0 };
    MixedRule {
        decode: PlanRule { tile_rows: 16, cost, schedule: Schedule::StreamK, ..prefill },
        prefill: PlanRule { cost: Cost { block: 5, ..cost }, ..prefill },
        co_run_workers: prefill.workers,
        own_sms: false,
        cascade: CascadeCosts {
            policy: CascadePolicy::Auto,
            state: 1,
            cached_block: 2,
            merge_launch: 0,
            decode_penalty: 0,
        },
    }
}

/// The work list of a batch, as [`WorkList::rebuild_for`] makes it. This backend locates keys by position, so a flat
/// list can also run over levels. Shared keys are then read once per request: use it for variants that mixed lists do
/// not support.
///
/// # Errors
///
/// The errors of [`WorkList::rebuild_for`].
pub fn work_of(
    variant: &Variant,
    others: &[&Variant],
    layout: &Layout,
    heads: Heads,
    rule: &ListRule,
) -> Result<WorkList, PlanError> {
    let flat = matches!(rule, ListRule::Flat(_));
    let positions = (flat && layout.has_levels()).then(|| layout.positions());
    let mut work = WorkList::default();
    let layout = positions.as_ref().unwrap_or(layout);
    work.rebuild_for(&mut PlanScratch::default(), variant, others, layout, heads, rule)?;
    Ok(work)
}

/// Checks that the CPU backend supports a variant: its normaliser, and that its hooks are compiled. It supports every
/// compiled hook.
///
/// # Errors
///
/// A part that was read from Rust text; a sink under [`Normalizer::Plain`], which has no row maximum.
pub fn check_variant(variant: &Variant) -> Result<(), CpuError> {
    if let Some(part) = variant.parts().find(|part| part.desc().text.is_some()) {
        return Err(CpuError::Text { variant: part.desc().name });
    }
    match variant.normalizer() {
        normalizer @ Normalizer::Plain { .. } if variant.has(Hook::SinkLogit) => {
            let part = variant.parts().find(|part| part.desc().has(Hook::SinkLogit));
            Err(CpuError::Sink { variant: part.map_or("", |part| part.desc().name), normalizer })
        }
        _ => Ok(()),
    }
}
