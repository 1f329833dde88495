//! The planner's rules for a kernel: how its tile sizes and measured costs cut a batch into work.

use attn_core::batch::Layout;
use attn_core::plan::{CascadeCosts, CascadePolicy, Cost, MixedRule, PlanRule, Schedule};
use attn_core::spec::Heads;

use crate::cost::{CostTable, HookClass};
use crate::kernel_traits::{KernelTraits, RESIDENT_Q_TILES, resident_tile_rows};

/// The least keys of a KV split of a prefill tile in a mixed launch. A mixed launch always includes the merge kernel,
/// and each CTA of the merge has few rows, so short splits are cheap to merge.
const MIXED_MIN_SPAN: u32 = 256;
/// Nanoseconds that a merge of a few states adds to a launch on an H200. The merge takes 5.7 to 6.5 us, partly
/// overlapped with the launch before it.
const MERGE_LAUNCH_NS: u32 = 4500;
/// How much more decode keys cost in a mixed launch, in units of 1/1024: it has fewer CTAs per SM
/// (`book/src/performance/notes/mixed.md`).
const MIXED_DECODE_PENALTY: u32 = 128;
/// The time that an SM takes for decode keys while the others compute prefill, relative to its time while all SMs
/// decode. With all 132 SMs of an H200 each reads 33 GB/s, since the memory is saturated; with fewer 48 are expected
/// (`book/src/performance/notes/mixed.md`).
pub(crate) const OWN_SM_TIME: [u32; 2] = [2, 3];

/// How the planner cuts a batch into work for kernels of these traits, by their `costs`. The device holds
/// `resident_ctas` at a time.
///
/// `step_keys` is the largest [`KernelTraits::step_keys`] of all kernels that run the work list, and `hooks` the
/// most costly class of their hooks; branches of a union differ in nothing else that the rule needs.
pub fn plan_rule(
    traits: &KernelTraits,
    costs: &CostTable,
    hooks: HookClass,
    step_keys: u32,
    resident_ctas: u32,
    kv_heads: u32,
) -> PlanRule {
    let (kv_align, min_span, schedule) = match traits.has_workers() {
        false => (traits.tile_keys, 512, Schedule::LongestFirst),
        true => (step_keys.max(64), 128, Schedule::StreamK),
    };
    let workers = (resident_ctas / kv_heads.max(1)).max(1);
    let cost = costs.of(traits, hooks).rule(traits, kv_align);
    PlanRule { tile_rows: traits.tile_rows, kv_align, min_span, workers, cost, schedule }
}

/// The rule of a kernel whose keys stay in shared memory ([`KernelTraits::resident`]) for a batch: an item has as
/// many Q tiles as leave each of `resident_ctas` CTAs about four items, the items of the longest request alike, and
/// its keys are not split.
pub fn resident_rule(rule: PlanRule, layout: &Layout, heads: Heads, resident_ctas: u32) -> PlanRule {
    const ITEMS_OF_CTA: u64 = 4;
    let tile_rows = resident_tile_rows(heads.group());
    let tiles = layout.qo_indptr().windows(2).map(|ends| {
        let rows = u64::from(ends[1].abs_diff(ends[0])) * u64::from(heads.group());
        rows.div_ceil(tile_rows.into())
    });
    let ctas = ITEMS_OF_CTA * u64::from(resident_ctas.max(1));
    let all = tiles.clone().sum::<u64>() * u64::from(heads.kv);
    let most = ((all + ctas / 2) / ctas).clamp(1, RESIDENT_Q_TILES.into());
    let longest = tiles.max().unwrap_or(0).max(1);
    let q_tiles = longest.div_ceil(longest.div_ceil(most)) as u32;
    PlanRule { tile_rows: q_tiles * tile_rows, workers: 1, ..rule }
}

/// How the planner cuts a mixed batch on a device that holds `resident_ctas` of the kernel at a time. The decode
/// and the prefill part share these CTAs in proportion to their predicted costs.
///
/// A decode worker that runs beside a prefill tile does not share the memory bandwidth of its SM. It reads as fast
/// as all decode CTAs of an SM do together, so its keys cost the measured time divided by the CTAs per SM. With
/// sm90 prefill it has the SM for itself, and costs less still (`OWN_SM_TIME`).
pub fn mixed_rule(
    traits: &KernelTraits,
    costs: &CostTable,
    hooks: HookClass,
    resident_ctas: u32,
    multiprocessors: u32,
    kv_heads: u32,
) -> MixedRule {
    let (decode, prefill) = (traits.decode_part(), traits.prefill_part());
    let decode_rule = plan_rule(&decode, costs, hooks, decode.step_keys(), resident_ctas, kv_heads);
    let prefill_rule = plan_rule(&prefill, costs, hooks, prefill.step_keys(), resident_ctas, kv_heads);
    let measured = costs.of(&decode, hooks).ctas_per_sm.max(1);
    let cost = decode_rule.cost;
    let own_sms = traits.is_sm90_prefill();
    let [time, of_all] = if own_sms { OWN_SM_TIME } else { [1, 1] };
    let block = (cost.block.saturating_mul(time) / (measured * of_all)).max(1);
    // keys of a shared prefix are re-read from L2, at half the cost; the decode launch that reads them fills the
    // device
    let cached_block = (cost.block.saturating_mul(traits.ctas_per_sm) / measured).div_ceil(2).min(block);
    MixedRule {
        decode: PlanRule { cost: Cost { block, ..cost }, ..decode_rule },
        // each CTA runs one item
        prefill: PlanRule { min_span: MIXED_MIN_SPAN, schedule: Schedule::LongestFirst, ..prefill_rule },
        co_run_workers: (multiprocessors / kv_heads.max(1)).max(1),
        own_sms,
        // one CTA writes the partial state, and another reads it
        cascade: CascadeCosts {
            policy: CascadePolicy::Auto,
            state: 2 * cost.merge.max(1),
            cached_block,
            merge_launch: MERGE_LAUNCH_NS,
            decode_penalty: MIXED_DECODE_PENALTY,
        },
    }
}

#[cfg(test)]
mod tests {
    use attn_core::batch::{Batch, indptr};
    use attn_core::dtype::Dtypes;
    use attn_core::spec::{KernelKind, PrefillBackend};

    use super::*;
    use crate::{compile::Arch, kernel_traits::KernelTraitsRequest};

    #[test]
    fn items_of_resident_keys_leave_each_cta_about_four() {
        let hopper = Arch::for_device(9, 0);
        let request = KernelTraitsRequest::new(KernelKind::Prefill, 128, Dtypes::bf16(), hopper);
        let request = KernelTraitsRequest { prefill: PrefillBackend::Sm90Resident, ..request };
        let traits = KernelTraits::choose(&request).expect("supported");
        let rule = plan_rule(&traits, &CostTable::default(), HookClass::None, traits.step_keys(), 132, 8);
        let rows_of = |qo: u32, requests: usize, tokens: u32| {
            let lens = indptr(&vec![tokens; requests]).expect("short");
            let layout = Batch::ragged(&lens, &lens).validate().expect("sound");
            let heads = Heads { qo, kv: 8, head_dim: 128 };
            let rule = resident_rule(rule, &layout, heads, 132);
            assert_eq!(rule.workers, 1, "keys are not split");
            rule.tile_rows
        };
        let rows = |requests, tokens| rows_of(32, requests, tokens);
        // 4096 Q tiles of a warpgroup on 132 SMs
        assert_eq!([rows(1, 128), rows(16, 128), rows(32, 128), rows(64, 128)], [64, 128, 256, 512]);
        assert_eq!(rows(1000, 128), 512);
        // four and four Q tiles of a request instead of five and three
        assert_eq!(rows(40, 128), 256);
        // tiles of 12 tokens of 5 heads, of which a request has 6 and 11
        assert_eq!([rows_of(40, 64, 64), rows_of(40, 64, 128)], [360, 660]);
    }
}
