//! The planner's rules for a kernel: how its tile sizes and measured costs cut a batch into work.

use attn_core::plan::{CascadeCosts, CascadePolicy, Cost, ListRule, MixedRule, PlanRule, Schedule};
use attn_core::spec::KernelKind;

use crate::cost::{CostTable, HookClass};
use crate::kernel_traits::{Facts, KernelTraits};

/// The least keys of a KV split of a prefill tile in a mixed launch, which always includes the merge kernel, and each
/// CTA of the merge has few rows, so short splits are cheap to merge.
const MIXED_MIN_SPAN: u32 = 256;
/// Nanoseconds that a merge of a few states adds to a launch on an H200. It takes 5.7 to 6.5 us, partly overlapped.
const MERGE_LAUNCH_NS: u32 = 4500;
/// How much more decode keys cost in a mixed launch, of 1024: fewer CTAs an SM (`book/src/performance/notes/mixed.md`).
const DECODE_PENALTY: u32 = 128;
/// The time that an SM takes for decode keys while the others compute prefill, relative to its time while all SMs
/// decode. With all 132 SMs of an H200 each reads 33 GB/s, since the memory is saturated; with fewer 48 are expected
/// (`book/src/performance/notes/mixed.md`). Decode that rewrites rows or decodes those of KV formats is bound by
/// instructions, and an SM takes as long as before.
pub(crate) fn own_sm_time(hooks: HookClass) -> [u32; 2] {
    if hooks == HookClass::Rewrites { [1, 1] } else { [2, 3] }
}

/// The least keys of a KV split of a kernel that is not mixed.
pub(crate) const fn min_span(has_workers: bool) -> u32 {
    if has_workers { 128 } else { 512 }
}

/// How the planner cuts a batch into work for kernels of these traits, by their `costs`. The device holds
/// `resident_ctas` at a time, on `multiprocessors` SMs.
///
/// `step_keys` is the largest [`KernelTraits::step_keys`] of all kernels that run the work list, and `hooks` the
/// most costly class of their hooks; branches of a union differ in nothing else that the rule needs.
pub fn list_rule(
    traits: &KernelTraits,
    costs: &CostTable,
    hooks: HookClass,
    step_keys: u32,
    resident_ctas: u32,
    multiprocessors: u32,
    kv_heads: u32,
) -> ListRule {
    if traits.kind() != KernelKind::Mixed {
        return ListRule::Flat(plan_rule(traits, costs, hooks, step_keys, resident_ctas, kv_heads));
    }
    let part = |part: &KernelTraits| plan_rule(part, costs, hooks, part.step_keys(), resident_ctas, kv_heads);
    // The device holds as many CTAs as the parts' rules say, which share them in proportion to their predicted costs.
    let (decode, prefill) = (traits.decode_part(), part(&traits.prefill_part()));
    let (measured_ctas, decode) = (costs.of(&decode.cost_key(), hooks).ctas_per_sm.max(1), part(&decode));
    let (cost, ctas_per_sm, own_sms) = (decode.cost, traits.facts().ctas_per_sm, traits.is_sm90_prefill());
    // A decode worker that runs beside a prefill tile does not share the memory bandwidth of its SM. It reads as fast
    // as all decode CTAs of an SM do together, so its keys cost the measured time divided by the CTAs per SM. With sm90
    // prefill it has the SM for itself, and costs less still.
    let [time, of_all] = if own_sms { own_sm_time(hooks) } else { [1, 1] };
    let block = (cost.block.saturating_mul(time) / (measured_ctas * of_all)).max(1);
    // keys of a shared prefix are re-read from L2, at half the cost; the decode launch that reads them fills the device
    let cached_block = (cost.block.saturating_mul(ctas_per_sm) / measured_ctas).div_ceil(2).min(block);
    ListRule::Mixed(MixedRule {
        decode: PlanRule { cost: Cost { block, ..cost }, ..decode },
        // each CTA runs one item
        prefill: PlanRule { min_span: MIXED_MIN_SPAN, schedule: Schedule::LongestFirst, ..prefill },
        co_run_workers: (multiprocessors / kv_heads.max(1)).max(1),
        own_sms,
        // one CTA writes the partial state, and another reads it
        cascade: CascadeCosts {
            policy: CascadePolicy::Auto,
            state: 2 * cost.merge.max(1),
            cached_block,
            merge_launch: MERGE_LAUNCH_NS,
            decode_penalty: DECODE_PENALTY,
        },
    })
}

/// The same for a kernel that is not mixed.
pub fn plan_rule(
    traits: &KernelTraits,
    costs: &CostTable,
    hooks: HookClass,
    step_keys: u32,
    resident_ctas: u32,
    kv_heads: u32,
) -> PlanRule {
    let Facts { tile_rows, tile_keys, has_workers, .. } = traits.facts();
    let (kv_align, schedule) =
        if has_workers { (step_keys.max(64), Schedule::StreamK) } else { (tile_keys, Schedule::LongestFirst) };
    let workers = (resident_ctas / kv_heads.max(1)).max(1);
    let cost = costs.of(&traits.cost_key(), hooks).rule(kv_align, has_workers);
    PlanRule { tile_rows, kv_align, min_span: min_span(has_workers), workers, cost, schedule }
}
