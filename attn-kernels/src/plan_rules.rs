//! The planner's rules for a kernel: how its tile sizes and measured costs cut a batch into work.

use attn_core::plan::{ListRule, PlanRule, Schedule};

use crate::cost::{CostTable, HookClass};
use crate::kernel_traits::{KernelTraits, Template};

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
    let Template::Mixed(mixed) = traits.template else {
        return ListRule::Flat(plan_rule(traits, costs, hooks, step_keys, resident_ctas, kv_heads));
    };
    let part = |part: &KernelTraits| plan_rule(part, costs, hooks, part.step_keys(), resident_ctas, kv_heads);
    let decode = traits.decode_part();
    let measured_ctas = costs.of(&decode.cost_key(), hooks).ctas_per_sm.max(1);
    let co_run_workers = (multiprocessors / kv_heads.max(1)).max(1);
    ListRule::Mixed(mixed.rule(part(&decode), part(&traits.prefill_part()), measured_ctas, co_run_workers))
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
    let (kv_align, min_span, schedule) = match traits.facts().has_workers {
        false => (traits.facts().tile_keys, 512, Schedule::LongestFirst),
        true => (step_keys.max(64), 128, Schedule::StreamK),
    };
    let workers = (resident_ctas / kv_heads.max(1)).max(1);
    let cost = costs.of(&traits.cost_key(), hooks).rule(kv_align, traits.facts().has_workers);
    PlanRule { tile_rows: traits.facts().tile_rows, kv_align, min_span, workers, cost, schedule }
}

#[cfg(test)]
mod tests {
    use attn_core::batch::{Batch, indptr};
    use attn_core::dtype::Dtypes;
    use attn_core::spec::{Heads, KernelKind, PrefillBackend};

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
            let rule = traits.kernel().rule_of_batch(rule, &layout, heads, 132);
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
