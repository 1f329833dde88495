//! `AttentionOptions::skip_softmax`: who takes it, who leaves nothing out, and what is refused by name.

use attn::AttentionOptions;
use attn_core::dtype::{Dtype, Dtypes};
use attn_core::spec::{ComputeType, Heads, KernelKind, PrefillBackend, SkipSoftmaxError};
use attn_kernels::{
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    support::{Spec, Target, Unsupported, supports},
};
use attn_testing::{Case, case_variant};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 128 };
const TARGETS: [Target; 3] = [Target::Cpu, Target::Cuda { capability: (8, 0) }, Target::Cuda { capability: (9, 0) }];

fn options(skip_softmax: f32) -> AttentionOptions {
    AttentionOptions { skip_softmax: Some(skip_softmax), ..AttentionOptions::default() }
}

#[test]
fn every_kernel_takes_a_bound_that_it_may_reach() {
    for (expr, target) in ["causal", "causal + sink", "causal + alibi", "rope"]
        .into_iter()
        .flat_map(|expr| TARGETS.map(|target| (expr, target)))
    {
        let variant = case_variant(&Case::new(expr)).expect("stock");
        for kernel in [None, Some(KernelKind::Decode), Some(KernelKind::Prefill), Some(KernelKind::Mixed)] {
            let options = AttentionOptions { kernel, ..options(8.0) };
            supports(&Spec { options, ..Spec::new(&variant, HEADS, Dtypes::bf16(), target) }).expect("a permission");
        }
    }
}

#[test]
fn prefill_on_wgmma_alone_leaves_tiles_out() {
    let of = |kind, prefill, arch: &str, skip_softmax| {
        let arch = arch.parse().expect("an architecture");
        let request = KernelTraitsRequest::new(kind, 128, Dtypes::bf16(), arch);
        let request = KernelTraitsRequest { prefill, group: 4, skip_softmax, ..request };
        KernelTraits::choose(&request).expect("supported").describe()
    };
    for (kind, prefill, arch, skips) in [
        (KernelKind::Prefill, PrefillBackend::Sm90, "90a", true),
        (KernelKind::Mixed, PrefillBackend::Sm90, "90a", true),
        // of one KV tile
        (KernelKind::Prefill, PrefillBackend::Sm90Resident, "90a", false),
        (KernelKind::Prefill, PrefillBackend::Sm80, "90a", false),
        (KernelKind::Prefill, PrefillBackend::Sm90, "80", false),
        (KernelKind::Prefill, PrefillBackend::CudaCores, "90a", false),
        (KernelKind::Mixed, PrefillBackend::Sm90, "80", false),
        (KernelKind::Decode, PrefillBackend::Sm90, "90a", false),
    ] {
        let [with, without] = [true, false].map(|skip_softmax| of(kind, prefill, arch, skip_softmax));
        assert_eq!(with.contains(" skip-softmax "), skips, "{with}");
        assert_eq!(with == without, !skips, "{without}");
    }
    let dtypes = Dtypes::new(Dtype::Bf16, Dtype::E4m3);
    let e4m3 = KernelTraitsRequest {
        compute_type: ComputeType::E4m3,
        skip_softmax: true,
        ..KernelTraitsRequest::new(KernelKind::Prefill, 128, dtypes, "90a".parse().expect("an architecture"))
    };
    assert!(!KernelTraits::choose(&e4m3).expect("supported").describe().contains("skip-softmax"));
}

#[test]
fn what_has_no_bound_is_refused_by_name() {
    let refused = |expr: &str, options: AttentionOptions| {
        let variant = case_variant(&Case::new(expr)).expect("stock");
        TARGETS.map(|target| {
            let spec = Spec { options, ..Spec::new(&variant, HEADS, Dtypes::bf16(), target) };
            match supports(&spec).expect_err("no bound") {
                Unsupported::SkipSoftmax(error) => error,
                other => panic!("{other}"),
            }
        })
    };
    for expr in ["sigmoid(bias=-4)", "causal + softpick", "causal + dropout(rate=0.5)"] {
        for error in refused(expr, options(8.0)) {
            assert!(matches!(&error, SkipSoftmaxError::Weights { .. }), "{error}");
            let named = error.to_string();
            assert!(named.contains("skip_softmax") && named.contains("weights of its own"), "{named}");
        }
    }
    for threshold in [0.0, -3.0, f32::NAN, f32::INFINITY] {
        for error in refused("causal", options(threshold)) {
            assert!(error.to_string().contains(&format!("skip_softmax = {threshold}; it must be positive")), "{error}");
        }
    }
    let fixed = AttentionOptions { fixed_split_size: Some(1024), ..options(8.0) };
    for error in refused("causal", fixed) {
        assert!(error.to_string().contains("skip_softmax = 8 beside fixed_split_size"), "{error}");
    }
}
