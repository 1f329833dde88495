//! Tile sizes: each kernel fits the smallest GPU of its architecture, and what none supports is named.

use attn_core::batch::{Batch, indptr};
use attn_core::dtype::{Dtype, Dtypes};
use attn_core::spec::{DecodeBackend, HeadDimVo, Heads, PrefillBackend};

use super::common::STATIC_BYTES;
use super::kernels::prefill_sm90::PIPELINE_STATE_BYTES;
use super::*;
use crate::compile::Arch;
use crate::cost::{CostTable, HookClass};
use crate::plan_rules::plan_rule;

fn request(kind: KernelKind, head_dim: u32) -> KernelTraitsRequest {
    let request = KernelTraitsRequest::new(kind, head_dim, Dtypes::bf16(), Arch::new(8, 0));
    KernelTraitsRequest { group: 4, key_hooks: true, value_hooks: true, ..request }
}

#[test]
fn every_kernel_fits_the_smallest_gpu_and_partial_states_fit_a_decode_stage() {
    // sm_80 cubins run on sm_86, which has as little shared memory as sm_120
    let archs = [Arch::new(8, 0), Arch::new(8, 6), Arch::for_device(9, 0), Arch::new(12, 0)];
    for (kind, kv) in
        [KernelKind::Prefill, KernelKind::Decode].map(|kind| [Dtype::Bf16, Dtype::E4m3].map(|kv| (kind, kv))).concat()
    {
        for ((head_dim, values), arch) in head_dims().into_iter().flat_map(|dim| archs.map(|arch| (dim, arch))) {
            for (group, hooks) in [(4, true), (16, true), (4, false), (16, false)] {
                let dtypes = Dtypes::bf16().with_kv(kv);
                let of = KernelTraitsRequest {
                    head_dim_vo: values,
                    dtypes,
                    arch,
                    group,
                    key_hooks: hooks,
                    value_hooks: hooks,
                    ..request(kind, head_dim)
                };
                let traits =
                    KernelTraits::choose(&of).unwrap_or_else(|error| panic!("{kind} {head_dim} {values}: {error}"));
                let smallest = if arch.has_wgmma() { arch } else { Arch::new(12, 0) };
                assert!(traits.smem_bytes() + 64 <= smallest.max_smem(), "{}", traits.describe());
                // latent attention on WGMMA decodes keys as it loads them
                let rewrites = hooks || (kv.is_fp8() && !traits.decodes_keys());
                assert_eq!(traits.has_kv_preprocess(), kind == KernelKind::Prefill && rewrites);
                let decodes = kv.is_fp8() && traits.is_sm90_prefill() && traits.common.values_share_keys;
                assert_eq!(traits.decodes_keys(), decodes);
                assert_eq!(traits.common.values_share_keys, values.shares_keys() && !hooks);
                if kind == KernelKind::Decode {
                    let states = traits.facts().tile_rows * traits.common.value_dim.next_multiple_of(32) * 4;
                    assert!(states <= traits.facts().stage_bytes(&traits.common), "{}", traits.describe());
                    assert_eq!(traits.facts().tile_rows, of.decode_rows(group));
                }
            }
        }
    }
}

/// Of latent attention whose keys are decoded as they are loaded, for more query heads than a CTA has rows.
#[test]
fn clusters_decode_keys_of_many_heads() {
    let facts = |kv, group| {
        let request = KernelTraitsRequest {
            head_dim_vo: HeadDimVo::SharedWithKeys(512),
            dtypes: Dtypes::bf16().with_kv(kv),
            group,
            ..KernelTraitsRequest::new(KernelKind::Prefill, 576, Dtypes::bf16(), Arch::for_device(9, 0))
        };
        KernelTraits::choose(&request).expect("latent prefill").facts()
    };
    let sizes = [(Dtype::E4m3, 64), (Dtype::E4m3, 65), (Dtype::Bf16, 128)].map(|(kv, group)| {
        let facts = facts(kv, group);
        (facts.tile_rows, facts.cluster_ctas, facts.cta_rows())
    });
    assert_eq!(sizes, [(64, 1, 64), (128, 2, 64), (64, 1, 64)]);
}

/// All equal head dimensions of keys and values, pairs of some, and those of latent attention.
fn head_dims() -> Vec<(u32, HeadDimVo)> {
    let some = [16, 48, 64, 96, 128, 144, 192, 240, 256, 512];
    let pairs = some.into_iter().flat_map(|keys| some.map(|values| (keys, values)));
    let pairs = pairs.filter(|&(keys, values)| head_dims_are_supported(keys, values));
    let pairs = pairs.map(|(keys, values)| (keys, HeadDimVo::Dim(values)));
    let same = (16..=256).step_by(16).map(|dim| (dim, HeadDimVo::Same));
    same.chain(pairs).chain([(576, HeadDimVo::SharedWithKeys(512)), (256, HeadDimVo::SharedWithKeys(192))]).collect()
}

#[test]
fn the_first_kernel_of_the_list_that_runs_a_problem_is_chosen() {
    use KernelKind::{Decode, Mixed, Prefill};
    use PrefillBackend::{CudaCores, Sm80, Sm90, Sm90Resident};
    let (hopper, ampere) = (Arch::for_device(9, 0), Arch::new(8, 0));
    for (kind, head_dim, arch, prefill, name) in [
        (Decode, 128, hopper, Sm90, " rows 8"),
        (Decode, 72, hopper, Sm90, " rows 4 cuda-cores"),
        (Prefill, 128, hopper, Sm90, " wgmma"),
        (Prefill, 128, hopper, Sm90Resident, " wgmma resident"),
        (Prefill, 64, hopper, Sm90Resident, " wgmma"),
        (Prefill, 128, hopper, Sm80, ""),
        (Prefill, 128, ampere, Sm90, ""),
        (Prefill, 72, ampere, Sm90, " rows 32 cuda-cores"),
        (Mixed, 128, hopper, Sm90, " rows 8 wgmma"),
        (Mixed, 128, ampere, Sm90, " rows 8"),
        (Mixed, 128, ampere, CudaCores, " rows 8 cuda-cores prefill"),
    ] {
        let of = KernelTraitsRequest { arch, prefill, ..request(kind, head_dim) };
        assert_eq!(KernelTraits::choose(&of).expect("supported").words(), name, "{kind} {head_dim} {arch}");
    }
}

#[test]
fn latent_attention_has_a_kernel_of_two_warpgroups() {
    let latent = |head_dim, values| KernelTraitsRequest {
        arch: Arch::for_device(9, 0),
        head_dim_vo: HeadDimVo::SharedWithKeys(values),
        key_hooks: false,
        value_hooks: false,
        ..request(KernelKind::Prefill, head_dim)
    };
    let plain = latent(576, 512);
    let (ragged, lists) =
        (KernelTraitsRequest { paged: false, ..plain }, KernelTraitsRequest { key_lists: true, ..plain });
    for of in [plain, latent(512, 512), ragged, lists] {
        let traits = KernelTraits::choose(&of).expect("supported");
        assert_eq!((traits.words(), traits.threads()), (" wgmma latent".to_owned(), 384));
        // beside the state of the pipeline: row_max and row_sum that warpgroups exchange, positions of listed keys
        let beside = PIPELINE_STATE_BYTES + 4 * (3 * 64 + 3 * 64);
        assert!(traits.smem_bytes() + beside <= traits.common.arch.max_smem(), "{}", traits.smem_bytes());
        let Facts { tile_rows, warps, column_warps, .. } = traits.facts();
        assert_eq!((tile_rows, warps, column_warps), (64, 8, 2));
    }
    // other widths, hooks that rewrite keys, and who asks for the other backend
    let others = [
        latent(576, 256),
        KernelTraitsRequest { key_hooks: true, ..plain },
        KernelTraitsRequest { prefill: PrefillBackend::Sm80, ..plain },
        KernelTraitsRequest { arch: Arch::new(8, 0), ..plain },
    ];
    for of in others {
        assert!(!KernelTraits::choose(&of).expect("supported").is_sm90_prefill(), "{of:?}");
    }
}

#[test]
fn a_mixed_kernel_has_both_parts_and_fits_twice_on_an_sm() {
    let of = |head_dim, arch: Arch, shared_rows| {
        KernelTraits::choose(&KernelTraitsRequest { arch, shared_rows, ..request(KernelKind::Mixed, head_dim) })
    };
    let on = |head_dim, arch| of(head_dim, arch, false);
    let hopper = Arch::new(9, 0);
    for head_dim in [64, 128] {
        let traits = on(head_dim, hopper).expect("supported");
        let (decode, prefill) = (traits.decode_part(), traits.prefill_part());
        assert_eq!((decode.kind(), prefill.kind()), (KernelKind::Decode, KernelKind::Prefill));
        assert_eq!((decode.threads(), decode.facts().tile_rows, decode.facts().stages), (prefill.threads(), 8, 3));
        assert_eq!(traits.smem_bytes(), decode.smem_bytes().max(prefill.smem_bytes()));
        assert!(2 * (traits.smem_bytes() + 1024 + 256) <= hopper.max_smem() + 1024 && traits.facts().ctas_per_sm == 2);
        assert!(
            traits.facts().preprocessed[0] && !decode.facts().preprocessed[0],
            "decode transforms keys in shared memory"
        );
        let shared = of(head_dim, hopper, true).expect("supported");
        assert!(shared.describe().contains("rows 8 shared"), "{}", shared.describe());
        assert!(!shared.prefill_part().shared_rows() && !shared.decode_part().shared_rows());
    }
    let wide = on(256, hopper).expect("one CTA");
    assert_eq!(wide.facts().ctas_per_sm, 1);
    let error = on(256, Arch::new(8, 6)).expect_err("a ring of 128 KB");
    assert!(matches!(error, KernelTraitsError::Mixed { head_dim: 256, .. }), "{error}");
    assert!(on(128, Arch::new(8, 6)).is_ok());
}

#[test]
fn a_mixed_kernel_with_sm90_prefill_decodes_with_all_of_its_warps() {
    let hopper = Arch::for_device(9, 0);
    let ask = |head_dim, kv| KernelTraitsRequest {
        arch: hopper,
        dtypes: Dtypes::bf16().with_kv(kv),
        ..request(KernelKind::Mixed, head_dim)
    };
    for (head_dim, kv) in [16, 64, 80, 128].into_iter().flat_map(|dim| [(dim, Dtype::Bf16), (dim, Dtype::E4m3)]) {
        for (group, hooks) in [(4, false), (16, false), (4, true), (16, true)] {
            let of = KernelTraitsRequest { group, key_hooks: hooks, value_hooks: hooks, ..ask(head_dim, kv) };
            let traits = KernelTraits::choose(&of).expect("supported");
            if kv.is_fp8() && hooks && of.decode_rows(group) > 8 {
                // a stage of 16 keys does not hold the partial states, and stages of 32 do not fit
                assert!(!traits.is_sm90_prefill());
                continue;
            }
            let (decode, prefill) = (traits.decode_part(), traits.prefill_part());
            let alone = KernelTraits::choose(&KernelTraitsRequest { kind: KernelKind::Prefill, ..of });
            assert_eq!((Ok(prefill), traits.facts().ctas_per_sm), (alone, 1));
            let tiles = decode.facts();
            assert_eq!((decode.threads(), tiles.key_warps()), (prefill.threads(), prefill.threads() / 32));
            assert_eq!(decode.facts().tile_rows, of.decode_rows(group));
            assert!(tiles.stages >= 2 && tiles.holds_partials(&traits.common) && !decode.is_sm90_prefill());
            assert!(traits.smem_bytes() + PIPELINE_STATE_BYTES <= hopper.max_smem());
            assert!(traits.describe().contains("wgmma"), "{}", traits.describe());
        }
    }
    let traits = KernelTraits::choose(&ask(128, Dtype::Bf16)).expect("supported").decode_part();
    let tiles = traits.facts();
    assert_eq!((tiles.warps, tiles.stages, traits.step_keys()), (12, 2, 192));
    let traits = KernelTraits::choose(&ask(64, Dtype::Bf16)).expect("supported").decode_part();
    let tiles = traits.facts();
    assert_eq!((tiles.warps, tiles.stages, traits.step_keys()), (16, 3, 256));
    // what its parts do not hold, cascades, lists, and who asks for the other backend
    let plain = ask(128, Dtype::Bf16);
    let others = [
        ask(256, Dtype::Bf16),
        KernelTraitsRequest { head_dim_vo: HeadDimVo::Dim(128), ..ask(192, Dtype::Bf16) },
        KernelTraitsRequest { shared_rows: true, ..plain },
        KernelTraitsRequest { key_lists: true, ..plain },
        KernelTraitsRequest { prefill: PrefillBackend::Sm80, ..plain },
        KernelTraitsRequest { decode: Some(DecodeBackend::CudaCores), ..plain },
        KernelTraitsRequest { arch: Arch::new(9, 0), ..plain },
        KernelTraitsRequest { dtypes: Dtypes::f32(), ..plain },
    ];
    // long rows of 8 bits, and keys and values of 256 elements together, fit
    for head_dim in [192, 256] {
        let of = KernelTraitsRequest { key_hooks: false, value_hooks: false, ..ask(head_dim, Dtype::E4m3) };
        assert!(KernelTraits::choose(&of).expect("supported").is_sm90_prefill());
    }
    let together = KernelTraitsRequest { head_dim_vo: HeadDimVo::Dim(64), ..ask(192, Dtype::Bf16) };
    assert!(KernelTraits::choose(&together).expect("supported").is_sm90_prefill());
    for of in others {
        let traits = KernelTraits::choose(&of).expect("supported");
        assert!(!traits.is_sm90_prefill() && !traits.describe().contains("wgmma"), "{}", traits.describe());
    }
}

#[test]
fn errors_name_the_unsupported_problem() {
    let decode = request(KernelKind::Decode, 72);
    let of = |head_dim, values, decode: Option<DecodeBackend>, dtypes| {
        let of = KernelTraitsRequest {
            head_dim_vo: HeadDimVo::Dim(values),
            decode,
            dtypes,
            ..request(KernelKind::Decode, head_dim)
        };
        KernelTraits::choose(&of).map(|traits| traits.facts().on_cuda_cores)
    };
    let (tensor_cores, bf16) = (Some(DecodeBackend::TensorCores), Dtypes::bf16());
    // what tensor cores have no kernel for runs on CUDA cores, unless tensor cores are asked for
    for (head_dim, values, dtypes) in [(72, 72, bf16), (64, 8, bf16), (64, 64, Dtypes::f32())] {
        assert_eq!(of(head_dim, values, None, dtypes), Ok(true));
        let error = of(head_dim, values, tensor_cores, dtypes).expect_err("not on tensor cores");
        assert!(
            error.to_string().contains("on tensor cores") && error.to_string().contains("the backend `cuda-cores`")
        );
    }
    let error = of(72, 72, tensor_cores, bf16).expect_err("72");
    assert!(error.to_string().contains("multiples of 16 up to 256, and 512"), "{error}");
    let error = of(516, 64, None, bf16).expect_err("516");
    assert!(
        matches!(error, KernelTraitsError::HeadDim { head_dim: 516, value_dim: 64, on_cuda_cores: false, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("Pad the heads with zeros"), "{error}");
    let cuda_cores = Some(DecodeBackend::CudaCores);
    let error = of(516, 64, cuda_cores, bf16).expect_err("516");
    assert!(error.to_string().contains("multiples of 8 up to 512"), "{error}");
    let mixed_types = Dtypes::new(Dtype::F32, Dtype::Bf16);
    let error = of(64, 64, cuda_cores, mixed_types).expect_err("f32 over bf16");
    assert!(matches!(error, KernelTraitsError::Dtypes { on_cuda_cores: false, .. }), "{error}");
    let turing = KernelTraitsRequest { arch: Arch::new(7, 5), decode: tensor_cores, ..decode };
    let error = KernelTraits::choose(&KernelTraitsRequest { head_dim: 64, ..turing }).expect_err("sm_75");
    assert_eq!(error, KernelTraitsError::NoMma { kind: KernelKind::Decode, arch: Arch::new(7, 5) });
}

#[test]
fn kernels_on_cuda_cores_fit_every_architecture() {
    let head_dims = (8..=512).step_by(8).map(|dim| (dim, HeadDimVo::Same));
    let others = [(64, HeadDimVo::Dim(512)), (512, HeadDimVo::Dim(8)), (576, HeadDimVo::SharedWithKeys(512))];
    for (head_dim, head_dim_vo) in head_dims.chain(others) {
        for (arch, kv) in [Arch::new(7, 5), Arch::new(8, 0), Arch::for_device(9, 0), Arch::new(12, 0)]
            .into_iter()
            .flat_map(|arch| [Dtype::F32, Dtype::E4m3].map(|kv| (arch, kv)))
        {
            for (kind, group, hooks) in [(KernelKind::Decode, 1), (KernelKind::Decode, 8), (KernelKind::Prefill, 1)]
                .into_iter()
                .flat_map(|(kind, group)| [(kind, group, false), (kind, group, true)])
            {
                let of = KernelTraitsRequest {
                    head_dim_vo,
                    dtypes: Dtypes::f32().with_kv(kv),
                    arch,
                    group,
                    key_hooks: hooks,
                    value_hooks: hooks,
                    ..request(kind, head_dim)
                };
                let traits =
                    KernelTraits::choose(&of).unwrap_or_else(|error| panic!("{head_dim} {head_dim_vo}: {error}"));
                let tiles = traits.facts();
                let partials = tiles.tile_rows * traits.common.value_dim.next_multiple_of(32) * 4;
                assert!(traits.facts().on_cuda_cores, "{}", traits.describe());
                assert!(partials <= tiles.stage_bytes(&traits.common), "{}", traits.describe());
                let Facts { tile_rows: rows, warps, row_warps, .. } = tiles;
                assert!(rows.is_multiple_of(row_warps) && warps.is_multiple_of(row_warps));
            }
        }
    }
}

#[test]
fn decode_tiles_hold_a_group() {
    for (group, rows) in [(1, 8), (3, 8), (8, 8), (9, 16), (16, 16), (32, 16)] {
        let traits = KernelTraits::choose(&KernelTraitsRequest { group, ..request(KernelKind::Decode, 128) })
            .expect("supported");
        assert_eq!(traits.facts().tile_rows, rows);
    }
}

#[test]
fn decode_of_16_rows_has_few_workers_where_rows_are_long() {
    // warps, stages, CTAs per SM of group 8, and of group 16
    for (head_dim, of_8, of_16) in [
        (64, (4, 2, 3), (4, 3, 2)),
        (128, (4, 2, 3), (8, 2, 1)),
        // more stages do not fit
        (256, (4, 3, 1), (4, 3, 1)),
    ] {
        let arch = Arch::for_device(9, 0);
        let tiles = [8, 16].map(|group| {
            let of = KernelTraitsRequest { group, arch, ..request(KernelKind::Decode, head_dim) };
            let traits = KernelTraits::choose(&of).expect("supported");
            let Facts { warps, stages, ctas_per_sm, .. } = traits.facts();
            (warps, stages, ctas_per_sm)
        });
        assert_eq!(tiles, [of_8, of_16], "head_dim {head_dim}");
    }
}

#[test]
fn sm90_prefill_runs_on_hopper_alone() {
    let hopper = Arch::for_device(9, 0);
    let ask = |kind, head_dim, arch, key_lists| {
        let of = |prefill| KernelTraitsRequest { arch, key_lists, prefill, ..request(kind, head_dim) };
        [PrefillBackend::Sm80, PrefillBackend::Sm90]
            .map(|prefill| KernelTraits::choose(&of(prefill)).expect("a traits"))
    };
    for (head_dim, threads, tile_rows, tile_keys) in
        [(16, 512, 192, 128), (64, 512, 192, 128), (80, 384, 128, 128), (128, 384, 128, 128), (256, 384, 128, 80)]
    {
        let [other, traits] = ask(KernelKind::Prefill, head_dim, hopper, head_dim == 128);
        let tile = (traits.threads(), traits.facts().ctas_per_sm, traits.facts().tile_rows, traits.facts().tile_keys);
        assert_eq!(tile, (threads, 1, tile_rows, tile_keys));
        assert!(traits.smem_bytes() + STATIC_BYTES <= hopper.max_smem() && traits.describe().contains("wgmma"));
        assert!(!other.is_sm90_prefill());
    }
    let others = [
        (KernelKind::Decode, 128, hopper, false),
        (KernelKind::Mixed, 256, hopper, false),
        (KernelKind::Prefill, 512, hopper, false),
        (KernelKind::Mixed, 128, hopper, true),
        (KernelKind::Prefill, 128, Arch::new(9, 0), false),
        (KernelKind::Prefill, 128, Arch::for_device(10, 0), false),
    ];
    for (kind, head_dim, arch, lists) in others {
        let [other, traits] = ask(kind, head_dim, arch, lists);
        assert_eq!(other, traits, "{}", traits.describe());
    }
}

#[test]
fn resident_q_tiles_have_whole_tokens_that_fit_a_warpgroup() {
    let groups = [1, 3, 4, 5, 33, 64, 65, 0];
    assert_eq!(groups.map(resident_tile_rows), [64, 63, 64, 60, 33, 64, 64, 64]);
}

#[test]
fn keys_stay_in_shared_memory_for_rows_of_128_alone() {
    let hopper = Arch::for_device(9, 0);
    let ask = |head_dim, arch, prefill| {
        let of = KernelTraitsRequest { arch, prefill, ..request(KernelKind::Prefill, head_dim) };
        KernelTraits::choose(&of).expect("a traits")
    };
    let [usual, resident] =
        [PrefillBackend::Sm90, PrefillBackend::Sm90Resident].map(|prefill| ask(128, hopper, prefill));
    assert_eq!((resident.common, resident.facts().tile_keys), (usual.common, usual.facts().tile_keys));
    assert_eq!((resident.facts().tile_rows, resident.threads()), (192, 512), "three consumer warpgroups");
    assert!(resident.facts().special == Some(PrefillBackend::Sm90Resident));
    assert!(resident.describe().contains("wgmma resident"), "{}", resident.describe());
    for (head_dim, arch) in [(64, hopper), (80, hopper), (256, hopper), (128, Arch::new(8, 0)), (128, Arch::new(10, 0))]
    {
        let [usual, other] =
            [PrefillBackend::Sm90, PrefillBackend::Sm90Resident].map(|prefill| ask(head_dim, arch, prefill));
        assert_eq!(other, usual);
    }
}

#[test]
fn invariance_of_rows_changes_no_size_and_is_named() {
    for kind in [KernelKind::Prefill, KernelKind::Decode] {
        let of = |row_invariant| {
            KernelTraits::choose(&KernelTraitsRequest { row_invariant, ..request(kind, 64) }).expect("a traits")
        };
        let (plain, invariant) = (of(false), of(true));
        let common = CommonTraits { row_invariant: false, ..invariant.common };
        assert_eq!(KernelTraits { common, ..invariant }, plain);
        assert_eq!(invariant.smem_bytes(), plain.smem_bytes());
        assert!(invariant.describe().contains("row-invariant") && !plain.describe().contains("invariant"));
    }
}

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
        let rule = traits.facts().rule_of_batch(rule, &layout, heads, 132);
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
