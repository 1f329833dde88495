//! Extreme positions in the tensors of a `remap`: generated code and Rust clamp them alike to coordinates below 2^30.

use attn_core::Variant;
use attn_core::lang::{Dims, QueryTile, Tile};
use attn_tests::compare::compare;
use attn_tests::host::HostVariant;
use rand::{Rng, SeedableRng, rngs::SmallRng};

const DIMS: Dims = Dims {
    qo_heads: Some(6),
    kv_heads: Some(3),
    head_dim: Some(16),
    value_dim: Some(16),
    batch: Some(2),
    qo_tokens: Some(40),
    kv_tokens: Some(80),
};

const EXTREMES: [i32; 8] = [i32::MIN, i32::MIN + 9, -(1 << 30), (1 << 30) - 1, 1 << 30, i32::MAX, 3, -3];

fn variant(rng: &mut SmallRng, inner: &str) -> Variant {
    attn_core::registry::register(attn_variants::variants()).expect("no two share a name");
    let mut list = |n: usize| {
        let some = |rng: &mut SmallRng| match rng.random_range(0..EXTREMES.len() + 2) {
            i if i < EXTREMES.len() => EXTREMES[i],
            _ => rng.random(),
        };
        (0..n).map(|_| some(rng).to_string()).collect::<Vec<_>>().join(", ")
    };
    let text = format!("remap(positions(of_query=[{}], of_key=[{}]), {inner})", list(40), list(80));
    Variant::parse(&text).expect("an expression").bind(&DIMS).expect("binds")
}

#[test]
fn hooks_and_tile_classes_agree_on_extreme_positions() {
    let mut rng = SmallRng::seed_from_u64(7);
    for inner in [
        "causal + sliding_window(window=9)",
        "not(sliding_window(window=2147483647)) + alibi(slopes=[1, 2, 3, 4, 5, 6])",
        "or(causal, batchify(block=16))",
        "remap(chunk_positions(qo_start=1000000000, kv_start=-1000000000), remap(batchify(block=7), causal))",
    ] {
        let variant = variant(&mut rng, inner);
        compare(&variant, &mut rng, 2000);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let host = HostVariant::compile(&variant, folder.path());
        for _ in 0..2000 {
            let (q, k) = (rng.random_range(0..40), rng.random_range(0..80));
            let (queries, keys) = (rng.random_range(0..4), rng.random_range(0..8));
            let rows = QueryTile {
                qo_row_min: q,
                qo_row_max: q + queries,
                qo_pos_min: q,
                qo_pos_max: q + queries,
                qo_token_min: q,
                qo_token_max: q + queries,
                qo_head_max: 5,
                kv_head_max: 2,
                qo_len: 40,
                kv_len: 80,
                ..QueryTile::default()
            };
            let tile = Tile { rows, kv_pos_min: k, kv_pos_max: k + keys, kv_token_min: k, kv_token_max: k + keys };
            assert_eq!(host.tile_class(tile), variant.tile_class(tile), "{variant}: {tile:?}");
        }
    }
}
