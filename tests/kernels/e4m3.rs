//! Compute type e4m3: the layout of transposed values, and what an attention with them refuses.

use attn_core::{
    cpu::RowRounding,
    dtype::{Dtype, Dtypes},
    expr::Variant,
    spec::{AttentionOptions, ComputeType, ComputeTypeError, HeadDimVo, Heads, KernelKind, KvStored, PrefillBackend},
};
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsError, KernelTraitsRequest};
use attn_kernels::support::{Spec, Target, Unsupported, supports};
use attn_testing::{Case, Lens, Order, case_variant};
use attn_tests::simt;
use attn_variants as _;

const TILE: usize = 128;

/// The key of a position of a row of transposed values.
fn key_of(position: usize) -> usize {
    let (sixteen, t, e) = (position / 16, position % 16 / 4, position % 4);
    16 * sixteen + 8 * (e / 2) + 2 * t + e % 2
}

#[test]
fn the_order_of_keys_is_that_of_accumulators_as_an_a_operand() {
    let mut seen: Vec<_> = (0..TILE).map(key_of).collect();
    for lane in 0..4 {
        for chunk in 0..TILE / 32 {
            for (half, e) in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)] {
                // PTX ISA, wgmma with elements of 8 bits: a lane's register has four neighbours of the summed dimension
                let position = 32 * chunk + 16 * half + 4 * lane + e;
                // and an accumulator two neighbouring columns of each eight
                let (block, column) = (4 * chunk + 2 * half + e / 2, 2 * lane + e % 2);
                assert_eq!(key_of(position), 8 * block + column);
            }
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..TILE).collect::<Vec<_>>(), "each key has one position");
}

#[test]
fn values_are_transposed_to_the_bit_and_zero_past_the_last_key() {
    let lens = [1u32, 0, 128, 300, 127, 129];
    for page_order in [Order::Nhd, Order::Hnd] {
        let case = Case {
            kernel: "prefill".to_owned(),
            qo_lens: Lens::List(vec![1, 0, 2, 1, 1, 3]),
            kv_lens: Lens::List(lens.to_vec()),
            page_order,
            ..Case::new("full")
        };
        let case = case.with_e4m3_compute().expect("a case that has them");
        let (heads, dim, batch) = (case.kv_heads as usize, 128, lens.len());
        let (inputs, got) = simt::preprocessed_values(case);
        let tokens: usize = lens.iter().map(|&len| len as usize).sum();
        let tiles = tokens / TILE + batch;
        let (values, strides) = (inputs.v.bytes(), &inputs.v_strides);
        // what no request has is as it was
        let mut want = vec![0xffu8; tiles * heads * dim * TILE];
        let mut begin = 0;
        for (request, len) in lens.iter().map(|&len| len as usize).enumerate() {
            let first = begin / TILE + request;
            for head in 0..heads {
                for (tile, d) in (0..len.div_ceil(TILE)).flat_map(|tile| (0..dim).map(move |d| (tile, d))) {
                    let row = &mut want[((head * tiles + first + tile) * dim + d) * TILE..][..TILE];
                    for (position, byte) in row.iter_mut().enumerate() {
                        let key = tile * TILE + key_of(position);
                        let at = (begin + key) as i64 * strides[0] + head as i64 * strides[1] + d as i64;
                        *byte = if key < len { values[at as usize] } else { 0 };
                    }
                }
            }
            begin += len;
        }
        assert!(got[..want.len()] == want, "{page_order:?}");
        assert!(got[want.len()..].iter().all(|&byte| byte == 0xff), "nothing is written beyond the tiles");
    }
}

const HEADS: Heads = Heads { qo: 32, kv: 8, head_dim: 128 };

fn refused(change: impl Fn(&mut Spec<'_>), expr: &str) -> Unsupported {
    let variant = case_variant(&Case::new(expr)).expect("stock");
    let dtypes = Dtypes::new(Dtype::Bf16, Dtype::E4m3);
    let mut spec = Spec::new(&variant, HEADS, dtypes, Target::Cuda { capability: (9, 0) });
    spec.options.compute_type = ComputeType::E4m3;
    change(&mut spec);
    supports(&spec).expect_err("there is no such kernel")
}

#[test]
fn what_has_no_e4m3_compute_is_refused_with_a_way_out() {
    let reason = |error: Unsupported| match error {
        Unsupported::ComputeType(error) => error,
        other => panic!("{other}"),
    };
    let of = |change: fn(&mut Spec<'_>), expr: &str| reason(refused(change, expr));
    let dim = of(|spec| spec.heads.head_dim = 64, "full");
    assert!(
        matches!(dim, ComputeTypeError::HeadDim { head_dim: 64, .. }) && dim.to_string().contains("exact"),
        "{dim}"
    );
    let values = of(|spec| spec.options.head_dim_vo = HeadDimVo::Dim(64), "full");
    assert!(matches!(values, ComputeTypeError::HeadDim { .. }));
    for kv in [Dtype::Bf16, Dtype::E5m2] {
        let variant = Variant::full();
        let options = AttentionOptions { compute_type: ComputeType::E4m3, ..AttentionOptions::default() };
        let target = Target::Cuda { capability: (9, 0) };
        let spec = Spec { options, ..Spec::new(&variant, HEADS, Dtypes::new(Dtype::Bf16, kv), target) };
        let error = reason(supports(&spec).expect_err("other types"));
        assert!(
            matches!(error, ComputeTypeError::Dtypes { .. }) && error.to_string().contains(kv.to_string().as_str())
        );
    }
    assert_eq!(of(|spec| spec.options.kernel = Some(KernelKind::Mixed), "full"), ComputeTypeError::Mixed);
    for expr in ["rope", "value_norm", "sigmoid(bias=-4)", "softpick", "page_list(page_size=16, max_pages=4)"] {
        let error = of(|_| {}, expr);
        assert!(
            matches!(&error, ComputeTypeError::Variant { variant, .. } if variant.contains("(") || *variant == expr)
        );
    }
    // hooks of a cache that is stored transformed do not run
    let variant = Variant::parse("causal + rope").expect("stock");
    let options = AttentionOptions {
        compute_type: ComputeType::E4m3,
        stored: KvStored::Transformed,
        ..AttentionOptions::default()
    };
    let dtypes = Dtypes::new(Dtype::F16, Dtype::E4m3);
    for target in [Target::Cpu, Target::Cuda { capability: (9, 0) }] {
        let spec = Spec { options, ..Spec::new(&variant, HEADS, dtypes, target) };
        supports(&spec).expect("rotated queries");
    }
}

#[test]
fn other_gpus_and_backends_have_no_e4m3_compute() {
    let no_kernel = |change: fn(&mut Spec<'_>)| match refused(change, "causal") {
        Unsupported::KernelTraits(error @ KernelTraitsError::ComputeType { .. }) => error.to_string(),
        other => panic!("{other}"),
    };
    for capability in [(8, 0), (8, 9), (10, 0)] {
        let variant = Variant::parse("causal").expect("stock");
        let options = AttentionOptions { compute_type: ComputeType::E4m3, ..AttentionOptions::default() };
        let dtypes = Dtypes::new(Dtype::Bf16, Dtype::E4m3);
        let spec = Spec { options, ..Spec::new(&variant, HEADS, dtypes, Target::Cuda { capability }) };
        let error = supports(&spec).expect_err("another GPU").to_string();
        assert!(error.contains("sm_90a") && error.contains("exact"), "{error}");
    }
    let text = no_kernel(|spec| spec.options.prefill = PrefillBackend::Sm80);
    assert!(text.contains("sm80"), "{text}");
}

#[test]
fn only_prefill_rounds() {
    let request = |kind| KernelTraitsRequest {
        compute_type: ComputeType::E4m3,
        ..KernelTraitsRequest::new(kind, 128, Dtypes::new(Dtype::Bf16, Dtype::E4m3), "90a".parse().expect("an arch"))
    };
    let traits = |kind| KernelTraits::choose(&request(kind));
    let prefill = traits(KernelKind::Prefill).expect("a kernel");
    assert!(prefill.facts().rounding == RowRounding::E4m3Compute);
    let resident = KernelTraitsRequest { prefill: PrefillBackend::Sm90Resident, ..request(KernelKind::Prefill) };
    assert_eq!(KernelTraits::choose(&resident), Ok(prefill), "their keys do not stay in shared memory");
    let decode = traits(KernelKind::Decode).expect("a kernel");
    let exact = KernelTraitsRequest { compute_type: ComputeType::Exact, ..request(KernelKind::Decode) };
    assert_eq!(decode, KernelTraits::choose(&exact).expect("a kernel"));
    assert!(matches!(traits(KernelKind::Mixed), Err(KernelTraitsError::ComputeType { .. })));
}

#[test]
fn names_are_parsed() {
    assert_eq!("e4m3".parse(), Ok(ComputeType::E4m3));
    assert_eq!("exact".parse(), Ok(ComputeType::Exact));
    let error = "fp8".parse::<ComputeType>().expect_err("no such name").to_string();
    assert!(error.contains("fp8") && error.contains("exact, e4m3"), "{error}");
}
