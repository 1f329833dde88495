//! Costs of kernels: the row that is found for each, and what plans make of it.

use attn_core::{
    dtype::{Dtype, Dtypes},
    spec::{DecodeBackend, KernelKind},
};

use super::{measured::Measured, *};
use crate::{
    compile::Arch,
    kernel_traits::{KernelTraits, KernelTraitsRequest},
};

fn traits(kind: KernelKind, head_dim: u32, kv: Dtype, arch: Arch) -> KernelTraits {
    let dtypes = Dtypes::bf16().with_kv(kv);
    let request = KernelTraitsRequest { group: 4, ..KernelTraitsRequest::new(kind, head_dim, dtypes, arch) };
    KernelTraits::choose(&request).expect("supported")
}

fn measured(arch: u32, head_dim: u32, kv_bits: u32, hooks: HookClass, block: u32) -> Measured {
    let costs = Costs { launch: 8000, item: 1000, block, first: 0, merge_launch: 1500, merge: 100, ctas_per_sm: 2 };
    let (arch, kernel, rows) = (Arch::new(arch / 10, arch % 10), CostKernel::Decode, 8);
    let (kv_bytes, row_products) = (2 * head_dim * kv_bits / 8, 2 * head_dim);
    let key = CostKey { arch, kernel, rows, kv_bits, head_dim, kv_bytes, row_products, ctas_per_sm: 2 };
    Measured { key, hooks, costs }
}

#[test]
fn every_row_is_found_by_its_own_key_alone() {
    let built_in = CostTable::default();
    for (i, row) in built_in.rows().iter().enumerate() {
        let key = row.key;
        assert_eq!(row.distance(&key, row.hooks), 0, "{row:?}");
        assert_eq!(built_in.of(&key, row.hooks), row.costs, "{row:?}");
        let same = built_in.rows().iter().position(|other| other.distance(&key, row.hooks) == 0);
        assert_eq!(same, Some(i), "{row:?}");
    }
}

#[test]
fn every_architecture_has_plausible_costs_of_each_kernel() {
    for arch in [Arch::new(8, 0), Arch::new(8, 9), Arch::new(9, 0), Arch::new(10, 0), Arch::new(12, 0)] {
        for kind in [KernelKind::Decode, KernelKind::Prefill] {
            assert!(
                CostTable::default()
                    .rows()
                    .iter()
                    .any(|row| row.key.kernel.is_decode() == (kind == KernelKind::Decode))
            );
            for (head_dim, kv) in [64, 128, 256].into_iter().flat_map(|dim| [(dim, Dtype::Bf16), (dim, Dtype::E5m2)]) {
                for hooks in [HookClass::None, HookClass::Logits, HookClass::Rewrites] {
                    let traits = traits(kind, head_dim, kv, arch);
                    let costs = CostTable::default().of(&traits.cost_key(), hooks);
                    // between 50 ns and 50 us
                    assert!((50..50_000).contains(&(costs.block + costs.first)), "{arch} {kind} {head_dim} {costs:?}");
                    assert!(costs.rule(64, false).block >= 1);
                }
            }
        }
    }
}

#[test]
fn distance_orders_by_architecture_then_hooks_then_types() {
    let traits = traits(KernelKind::Decode, 128, Dtype::E4m3, Arch::for_device(9, 0));
    let by_distance = [
        measured(90, 128, 8, HookClass::None, 1),
        measured(90, 256, 8, HookClass::None, 1),
        measured(90, 128, 16, HookClass::None, 1),
        measured(90, 128, 8, HookClass::Logits, 1),
        measured(80, 128, 8, HookClass::None, 1),
    ];
    let distances = by_distance.map(|row| row.distance(&traits.cost_key(), HookClass::None));
    assert!(distances.is_sorted() && distances[0] == 0, "{distances:?}");
}

#[test]
fn costs_of_keys_scale_with_the_bytes_to_load() {
    let of = |head_dim, kv| traits(KernelKind::Decode, head_dim, kv, Arch::for_device(9, 0));
    let row = measured(90, 128, 16, HookClass::None, 2000);
    let block = |traits: KernelTraits| row.scaled_to(&CostKey { ctas_per_sm: 2, ..traits.cost_key() }).block;
    assert_eq!(block(of(128, Dtype::Bf16)), 2000);
    assert_eq!(block(of(256, Dtype::Bf16)), 4000);
    assert_eq!(block(of(64, Dtype::E4m3)), 500);
    let shared = CostKey { ctas_per_sm: 3, ..of(128, Dtype::Bf16).cost_key() };
    assert_eq!(row.scaled_to(&shared).block, 3000);
}

#[test]
fn a_rule_has_the_cost_of_a_block_of_its_alignment() {
    let costs = Costs { block: 2000, first: 100, ..Costs::default() };
    assert_eq!(costs.rule(64, true).block, 2100);
    assert_eq!(costs.rule(128, true).block, 4200);
    assert_eq!(costs.rule(96, false).block, 3000);
    assert_eq!(Costs::default().rule(64, true).block, 1, "at least 1");
}

#[test]
fn decode_runs_on_the_backend_with_less_measured_time() {
    let chosen = |head_dim, dtypes, group, arch: &str, hooks| {
        let arch = arch.parse().expect("an architecture");
        let request = KernelTraitsRequest {
            group,
            key_hooks: hooks == HookClass::Rewrites,
            ..KernelTraitsRequest::new(KernelKind::Prefill, head_dim, dtypes, arch)
        };
        let named = KernelTraitsRequest { decode: Some(DecodeBackend::CudaCores), ..request };
        assert_eq!(named.with_decode_backend(hooks, &CostTable::default()).decode, named.decode, "a name decides");
        request.with_decode_backend(hooks, &CostTable::default()).decode.expect("one is chosen")
    };
    use DecodeBackend::{CudaCores, TensorCores};
    use HookClass::{Logits, None, Rewrites};
    for (head_dim, dtypes, group, arch, hooks, backend) in [
        (128, Dtypes::bf16(), 1, "90a", None, TensorCores),
        (128, Dtypes::bf16(), 4, "90a", Rewrites, TensorCores),
        (128, Dtypes::f16().with_kv(Dtype::E4m3), 8, "120", Logits, TensorCores),
        // rows of 256 elements that a hook rewrites: tensor cores have one CTA per SM
        (256, Dtypes::bf16(), 4, "90a", Rewrites, CudaCores),
        (256, Dtypes::bf16(), 8, "90a", Rewrites, TensorCores),
        (128, Dtypes::f32(), 4, "90a", None, CudaCores),
        (72, Dtypes::bf16(), 4, "90a", None, CudaCores),
        (128, Dtypes::f16(), 4, "75", None, CudaCores),
        // neither supports it
        (12, Dtypes::bf16(), 4, "90a", None, TensorCores),
    ] {
        assert_eq!(chosen(head_dim, dtypes, group, arch, hooks), backend, "{head_dim} {dtypes:?} {group} {arch}");
    }
}
