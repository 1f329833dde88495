//! Kernels over keys and values that are stored transformed: neither K/V preprocessing nor the main kernel transforms
//! them.
#![allow(clippy::unwrap_used)]

use attn_core::Variant;
use attn_core::dtype::Dtypes;
use attn_core::lang::Dims;
use attn_core::spec::{KernelKind, KvStored};
use attn_kernels::aot::{AotOptions, build};
use attn_kernels::compile::Arch;
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::{KernelSource, variant_args};

const KINDS: [KernelKind; 2] = [KernelKind::Prefill, KernelKind::Decode];

fn parse(expr: &str) -> Variant {
    let dims = Dims { qo_heads: Some(4), kv_heads: Some(2), head_dim: Some(64), ..Dims::default() };
    crate::stock::variant(expr).bind(&dims).unwrap()
}

/// The kernels of all branches.
fn sources(variant: &Variant, kind: KernelKind) -> Vec<KernelSource> {
    let of = |branch: &Variant| {
        let request = KernelTraitsRequest::new(kind, 64, Dtypes::bf16(), Arch::new(8, 0));
        let request = KernelTraitsRequest { paged: false, group: 2, ..request.with_hooks([branch]) };
        KernelSource::build(branch, &KernelTraits::choose(&request).unwrap()).unwrap()
    };
    variant.branches().iter().map(of).collect()
}

/// Variants that transform keys or values: alone, per head, mapped, in branches.
const REWRITING: [&str; 5] = [
    "causal + rope",
    "rope + value_norm + soft_cap(cap=30)",
    "per_head(heads=[0, 0, 1, 1], rope + causal, value_norm)",
    "remap(batchify(block=16), causal + rope)",
    "union(causal + rope, not(causal) + rope)",
];

#[test]
fn stored_keys_are_not_transformed_again() {
    for expr in REWRITING {
        let raw = parse(expr);
        let stored = raw.clone().with_stored(KvStored::Transformed);
        for kind in KINDS {
            for (raw, stored) in sources(&raw, kind).iter().zip(&sources(&stored, kind)) {
                let flag = |source: &KernelSource, name: &str| source.text.contains(&format!("bool {name} = true;"));
                let any = |source| flag(source, "HAS_KEY_TRANSFORM") || flag(source, "HAS_VALUE_TRANSFORM");
                assert!(any(raw) && !any(stored), "{expr} {kind}");
                assert_eq!(flag(raw, "HAS_QUERY_TRANSFORM"), flag(stored, "HAS_QUERY_TRANSFORM"), "{expr} {kind}");
                assert_eq!(raw.traits.has_kv_preprocess(), kind == KernelKind::Prefill, "{expr}");
                assert!(
                    !stored.traits.has_kv_preprocess() && !stored.text.contains("attn_kv_preprocess("),
                    "{expr} \
                     {kind}"
                );
                assert_ne!(raw.key(), stored.key(), "{expr} {kind}");
            }
        }
        // the arguments are the same
        let bytes = |variant: &Variant| variant_args(variant, |_| Ok::<u64, ()>(0)).unwrap();
        assert!(raw.branches().iter().zip(stored.branches()).all(|(a, b)| bytes(a) == bytes(&b)));
    }
}

#[test]
fn without_transforms_the_text_is_the_same() {
    for kind in KINDS {
        for (expr, stored) in [
            ("causal + rope", KvStored::Raw),
            ("causal + alibi", KvStored::Transformed),
            ("or(causal, not(sliding_window(window=4)))", KvStored::Transformed),
        ] {
            let plain = parse(expr);
            let declared = plain.clone().with_stored(stored);
            let texts = |variant| sources(variant, kind).into_iter().map(|source| source.text).collect::<Vec<_>>();
            assert_eq!(texts(&plain), texts(&declared), "{expr} {kind}");
        }
    }
}

#[test]
fn every_kernel_compiles_and_is_embedded() {
    let Some(compiler) = crate::stock::compiler() else { return };
    for expr in REWRITING {
        let stored = parse(expr).with_stored(KvStored::Transformed);
        for source in KINDS.into_iter().flat_map(|kind| sources(&stored, kind)) {
            let compiled = compiler
                .compile(&source.name, &source.text, source.traits.common.arch)
                .unwrap_or_else(|e| panic!("{e}"));
            let kernels: Vec<_> = compiled.resources().into_iter().map(|r| r.kernel).collect();
            assert!(!kernels.iter().any(|kernel| kernel == "attn_kv_preprocess"), "{}: {kernels:?}", source.name);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let options = AotOptions {
        variants: attn_variants::variants(),
        expressions: &["causal + rope", "causal"],
        head_dims: &[64],
        groups: &[2],
        paged: &[false],
        stored: &[KvStored::Raw, KvStored::Transformed],
        archs: Some(&[Arch::new(8, 0)]),
        ..AotOptions::default()
    };
    let report = build(&options, dir.path()).unwrap();
    assert_eq!(report.cubins, 3 * KINDS.len(), "causal is the same either way");
    let table = std::fs::read_to_string(dir.path().join("attn_aot.rs")).unwrap();
    for stored in [KvStored::Raw, KvStored::Transformed] {
        for source in KINDS.into_iter().flat_map(|kind| sources(&parse("causal + rope").with_stored(stored), kind)) {
            assert!(table.contains(&source.key().to_string()), "{} is found", source.name);
        }
    }
}
