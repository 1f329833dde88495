//! Combinators as C++: every hook of a tree, compiled for the host, against the same tree in Rust. Trees also compile
//! inside kernels with NVRTC.

use attn_core::Variant;
use attn_core::dtype::Dtypes;
use attn_core::lang::{Dims, LogitIndex, ParamValue, QueryTile, RowIndex, Tile, TileClass};
use attn_core::spec::KernelKind;
use attn_kernels::compile::{Arch, Compiler};
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::{KernelSource, variant::outline};
use attn_needs::{Need, needed};
use attn_tests::compare::compare;
use attn_tests::host::HostVariant;
use rand::{Rng, SeedableRng, rngs::SmallRng};

const HEADS: i32 = 6;
const DIMS: Dims = Dims {
    qo_heads: Some(HEADS as i64),
    kv_heads: Some(3),
    head_dim: Some(16),
    value_dim: Some(16),
    batch: Some(2),
    qo_tokens: Some(40),
    kv_tokens: Some(80),
};

/// Trees over stock variants: each combinator alone, nested, and composed with parts.
const TREES: &[&str] = &[
    "or(causal, sliding_window(window=9))",
    "not(causal)",
    "or(causal + sliding_window(window=9), prefix_lm(prefix=[7, 3]), not(sliding_window(window=40))) \
     + soft_cap(cap=30)",
    "not(or(causal, full))",
    "not(full) + alibi",
    "remap(batchify(block=16), causal + alibi)",
    "remap(batchify(block=16), or(causal, prefix_lm(prefix=[3, 3])) + rope + qk_norm) + soft_cap(cap=20)",
    "remap(chunk_positions(qo_start=3, kv_start=40), remap(batchify(block=7), alibi + rope))",
    "remap(batchify(block=8), relu)",
    "remap(batchify(block=8), sink(logits=[1, 2, 3, 4, 5, 6]) + causal) + sink(logits=[0, 0, 0, 0, 0, 0])",
    "per_head(heads=[0, 1, 2, 0, 1, 2], causal, sliding_window(window=5) + soft_cap(cap=5), full)",
    "per_head(heads=[0, 0, 1, 1, 0, 0], rope + causal, qk_norm + rope(interleaved=true)) + alibi",
    "per_head(heads=[0, 0, 1, 1, 2, 2], value_norm, full, k_smoothing)",
    "per_head(heads=[0, 1, 0, 1, 0, 1], sink(logits=[1, 2, 3, 4, 5, 6]), causal) + sink(logits=[0, 1, 0, 1, 0, 1])",
    "per_head(heads=[1, 0, 1, 0, 1, 0], sigmoid(bias=1), sigmoid(bias=-1) + causal)",
    "per_head(heads=[0, 1, 1, 0, 0, 1], output_scale, output_norm + causal)",
    "per_head(heads=[1, 0, 1, 0, 1, 0], not(causal), \
     remap(batchify(block=4), per_head(heads=[0, 1, 0, 1, 0, 1], causal, full)))",
    "per_head(heads=[0, 1, 0, 1, 0, 1], softpick, softpick + causal)",
    // tile classes use the mask of all branches; hooks are compared branch by branch
    "union(causal + sliding_window(window=4), prefix_lm(prefix=[8, 3]) + soft_cap(cap=3), full + rope) + causal",
];

fn tree(text: &str) -> Variant {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let mut variant = Variant::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    // parameters with neither value nor default
    for missing in variant.missing(&DIMS).expect("no arithmetic") {
        let values = numbers(&missing.shape.expect("all sizes are known"), &mut 0);
        variant.set_in(missing.part, missing.field.name, values).expect("of one rank");
    }
    variant.bind(&DIMS).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A list of lists of numbers, all different.
fn numbers(shape: &[i64], next: &mut i64) -> ParamValue {
    let Some((&n, inner)) = shape.split_first() else {
        *next += 1;
        return ParamValue::Float(0.5 + *next as f64 / 64.0);
    };
    ParamValue::List((0..n).map(|_| numbers(inner, next)).collect())
}

#[test]
fn generated_trees_equal_their_rust() {
    let mut rng = SmallRng::seed_from_u64(3);
    for text in TREES {
        let variant = tree(text);
        match variant.has_union() {
            true => variant.branches().iter().for_each(|branch| compare(branch, &mut rng, 1000)),
            false => compare(&variant, &mut rng, 1000),
        }
    }
}

/// A random tile of a few heads, queries and keys, which may be out of bounds.
fn random_tile(rng: &mut SmallRng) -> Tile {
    let (q, queries, k) = (rng.random_range(0..60), rng.random_range(0..4), rng.random_range(0..60));
    let head = rng.random_range(-1..HEADS + 2);
    let rows = QueryTile {
        batch: rng.random_range(0..2),
        qo_row_min: q,
        qo_row_max: q + queries,
        qo_pos_min: q,
        qo_pos_max: q + queries,
        qo_head_min: head,
        qo_head_max: head + rng.random_range(-1..3),
        qo_len: 64,
        kv_len: 64,
        ..QueryTile::default()
    };
    let keys = rng.random_range(0..6);
    Tile { rows, kv_pos_min: k, kv_pos_max: k + keys, kv_token_min: k, kv_token_max: k + keys }
}

#[test]
fn tile_classes_are_sound_and_equal_in_cpp_and_rust() {
    let mut rng = SmallRng::seed_from_u64(5);
    let mut proven = 0;
    for text in TREES {
        let variant = tree(text);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let host = HostVariant::compile(&variant, folder.path());
        for _ in 0..1000 {
            let tile = random_tile(&mut rng);
            let class = variant.tile_class(tile);
            assert_eq!(host.tile_class(tile), class, "{variant}: tile_class of {tile:?}");
            let want = match class {
                TileClass::Partial => continue,
                class => class == TileClass::Full,
            };
            proven += 1;
            for (qo_pos, qo_head) in rows_of(&tile) {
                let row = RowIndex {
                    batch: tile.batch,
                    qo_pos,
                    qo_row: qo_pos,
                    qo_head,
                    qo_len: 64,
                    kv_len: 64,
                    ..RowIndex::default()
                };
                let mut keep = vec![true; (tile.kv_pos_max - tile.kv_pos_min + 1) as usize];
                variant.mask_tile(
                    &mut keep,
                    LogitIndex { row, kv_pos: tile.kv_pos_min, kv_token: tile.kv_token_min, kv_slot: 0 },
                );
                assert!(keep.iter().all(|&keep| keep == want), "{variant}: {tile:?} is not {class:?}");
            }
        }
    }
    assert!(proven > 2000, "{proven}");
}

fn rows_of(tile: &Tile) -> impl Iterator<Item = (i32, i32)> {
    let heads = tile.qo_head_min..=tile.qo_head_max;
    (tile.qo_pos_min..=tile.qo_pos_max).flat_map(move |q| heads.clone().map(move |head| (q, head)))
}

#[test]
fn an_outline_has_no_parameters() {
    for (text, want) in [
        ("full", "full"),
        ("causal + soft_cap(cap=3)", "causal + soft_cap"),
        ("remap(batchify(block=16), or(causal, not(full))) + alibi", "remap(batchify, or(causal, not(full))) + alibi"),
        ("per_head(heads=[0, 1, 0, 1, 0, 1], causal + alibi, full)", "per_head(causal + alibi, full)"),
    ] {
        assert_eq!(outline(&tree(text)), want);
    }
}

/// Each tree in one of the kernels; in both where tests run as a whole.
#[test]
fn trees_compile_inside_kernels() {
    let Some(compiler) = needed(Need::Nvrtc, Compiler::find()) else { return };
    let arch: Arch = "sm_90a".parse().expect("an architecture");
    let trees = [
        "or(causal + sliding_window(window=9), prefix_lm(prefix=[7, 3])) + soft_cap(cap=30)",
        "remap(batchify(block=16), causal + alibi + rope)",
        "per_head(heads=[0, 0, 1, 1, 0, 0], rope + causal + sink(logits=[0, 0, 0, 0, 0, 0]), qk_norm + alibi) \
         + not(full)",
        "per_head(heads=[0, 1, 0, 1, 0, 1], output_norm + causal, full)",
        "union(causal + sliding_window(window=4) + rope, full + soft_cap(cap=3)) + causal",
    ];
    let branches: Vec<_> = trees.into_iter().flat_map(|text| tree(text).branches()).collect();
    for (at, variant) in branches.iter().enumerate() {
        let kinds = [KernelKind::Prefill, KernelKind::Decode];
        let one = &kinds[(at + attn_needs::seed()) % 2..][..1];
        for &kind in if attn_needs::whole() { &kinds[..] } else { one } {
            let request = KernelTraitsRequest::new(kind, 64, Dtypes::bf16(), arch).with_hooks([variant]);
            let request = KernelTraitsRequest { group: 2, ..request };
            let source =
                KernelSource::build(variant, &KernelTraits::choose(&request).expect("a cell")).expect("supported");
            if let Err(error) = compiler.compile(&source.name, &source.text, arch) {
                panic!("{variant}, {kind}: {error}");
            }
        }
    }
}
