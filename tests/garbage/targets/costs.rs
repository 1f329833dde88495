//! Files of measured costs.

use attn_core::{dtype::Dtypes, spec::KernelKind};
use attn_kernels::compile::Arch;
use attn_kernels::cost::{CostTable, HookClass};
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::plan_rules::plan_rule;

use crate::harness::Seen;

const BUILT_IN: &str = include_str!("../../../attn-kernels/costs/sm_90.jsonl");

pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let about = BUILT_IN.lines().next().expect("it names a GPU");
    let with_about = |row: &str| format!("{about}\n{row}\n").into_bytes();
    let mut corpus: Vec<_> =
        BUILT_IN.lines().filter(|line| !line.contains("about")).step_by(9).map(with_about).collect();
    corpus.push(BUILT_IN.lines().take(6).collect::<Vec<_>>().join("\n").into_bytes());
    corpus
}

pub(crate) fn run(data: &[u8]) -> Seen {
    let Ok(costs) = CostTable::parse(&String::from_utf8_lossy(data)) else { return Seen::Refused };
    assert!(costs.loaded_rows() > 0);
    for (kind, arch) in [(KernelKind::Decode, (9, 0)), (KernelKind::Prefill, (9, 0)), (KernelKind::Prefill, (12, 0))] {
        let arch = Arch::for_device(arch.0, arch.1);
        let request = KernelTraitsRequest::new(kind, 128, Dtypes::bf16(), arch);
        let traits = KernelTraits::choose(&request).expect("supported");
        let rule = plan_rule(&traits, &costs, HookClass::None, traits.step_keys(), u32::MAX, 1);
        assert!(rule.cost.block > 0);
    }
    Seen::Accepted
}
