//! Prefill whose keys stay in shared memory runs on the host, thread by thread. It agrees with the f64 reference, and
//! has the bits of the usual sm_90 kernel.

use attn_core::spec::PrefillBackend;
use attn_testing::{Case, LayoutKind, Lens, grid};
use attn_tests::simt;

/// The most keys of a request.
const TILE_KEYS: u32 = 128;

/// Prefill cases with heads of 128 elements and without key lists, whose requests are cut to one KV tile.
fn short(cases: impl IntoIterator<Item = Case>) -> Vec<Case> {
    let fits = |case: &Case| {
        [case.head_dim, case.head_dim_vo.dim(case.heads())] == [128; 2]
            && !case.head_dim_vo.shares_keys()
            && case.sparse.is_none()
            && !case.variant.contains("_list")
            && !case.variant.contains("block_sparse")
            && !case.variant.contains("union")
    };
    let cut = |case: Case| {
        let keys = case.kv_lens.to_vec().into_iter().map(|keys| keys.min(TILE_KEYS)).collect();
        Case { kv_lens: Lens::List(keys), fixed_split_size: None, ..case }
    };
    simt::on_tensor_cores("prefill", PrefillBackend::Sm90Resident, cases).filter(fits).map(cut).collect()
}

/// Requests of 0 to 10 Q tiles of 64 rows, some without keys or with few; by its seed, an item has 1 to 8 of them.
fn uneven(variant: &str, qo_heads: u32, page_size: Option<u32>, seed: u64) -> Case {
    Case {
        kernel: "prefill".to_owned(),
        qo_heads,
        head_dim: 128,
        kv_layout: if page_size.is_some() { LayoutKind::Paged } else { LayoutKind::Ragged },
        page_size: page_size.unwrap_or(16),
        qo_lens: Lens::List(vec![150, 0, 1, 33, 16, 65, 97, 128]),
        kv_lens: Lens::List(vec![128, 5, 0, 127, 16, 1, 100, 128]),
        seed,
        // with room for more items, which have no rows
        graph: seed % 2 == 1,
        ..Case::new(variant)
    }
}

#[test]
fn the_small_grid() {
    simt::check(short(grid::small()));
}

#[test]
fn stock_variants() {
    simt::check(short(simt::sample(&grid::serving(), "prefill", 24)));
}

#[test]
fn items_of_several_q_tiles() {
    let of = |seed| {
        [uneven("full", 8, None, seed), uneven("causal", 4, Some(16), seed), uneven("causal + rope", 8, Some(8), seed)]
    };
    simt::check(short((0..8).flat_map(of)));
}

/// Groups of 3 and 5 heads, whose Q tiles have 63 and 60 rows. Pages of no multiple of 8 keys, which TMA does not load.
#[test]
fn q_tiles_of_whole_tokens() {
    let of = |seed| [uneven("causal", 6, Some(5), seed), uneven("causal + alibi + sink", 10, Some(12), seed)];
    simt::check(short((1..4).flat_map(of)));
    simt::check(short([uneven("causal", 10, Some(16), 5), uneven("full", 10, None, 10)]));
}

/// Groups of more heads than a warpgroup has rows: TMA does not load Q.
#[test]
fn rows_that_tma_does_not_load() {
    let of = |page_size, seed| Case {
        qo_lens: Lens::List(vec![3, 0, 1, 5]),
        kv_lens: Lens::List(vec![128, 5, 0, 100]),
        ..uneven("causal", 130, page_size, seed)
    };
    simt::check(short([of(None, 1), of(Some(16), 2), of(Some(5), 3)]));
}

#[test]
fn the_bits_are_those_of_the_usual_kernel() {
    let cases = short([
        uneven("causal", 8, None, 3),
        uneven("sliding_window(window=20)", 8, Some(16), 2),
        uneven("causal + rope + value_norm", 4, Some(16), 1),
    ]);
    let usual = cases.iter().map(|case| Case { prefill: PrefillBackend::Sm90, ..case.clone() });
    assert_eq!(simt::bits(usual), simt::bits(cases.clone()));
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn the_large_grid() {
    simt::check(short(grid::serving()));
}
