//! Split-KV decode on `mma.sync` runs on the host, thread by thread, and agrees with the f64 reference.

use attn_core::spec::PrefillBackend;
use attn_testing::{Case, Lens, grid};
use attn_tests::simt;

fn check(cases: Vec<Case>) {
    simt::check(simt::on_tensor_cores("decode", PrefillBackend::Sm80, cases));
}

#[test]
fn the_small_grid() {
    check(grid::small());
}

#[test]
fn head_dims() {
    check(simt::sample(&grid::dims(), "decode", 12));
}

#[test]
fn stock_variants() {
    check(simt::sample(&grid::serving(), "decode", 24));
}

/// Tensors over queries and keys are larger than the batch, and what is past it would show.
#[test]
fn tensors_with_room() {
    let table = |rows: usize, more: usize, columns: usize| -> Vec<Vec<f32>> {
        let value =
            |row: usize, column: usize| if row < rows { 0.5 + (row * 7 + column) as f32 % 4.0 / 4.0 } else { 1e30 };
        (0..rows + more).map(|row| (0..columns).map(|column| value(row, column)).collect()).collect()
    };
    for (kind, qo_lens, kv_lens) in [("decode", [1, 1], [33, 170]), ("prefill", [17, 40], [33, 70])] {
        let (queries, keys) = ((qo_lens[0] + qo_lens[1]) as usize, (kv_lens[0] + kv_lens[1]) as usize);
        let (k, v, gate) = (table(keys, 50, 2), table(keys, 50, 2), table(queries, 9, 4));
        let variant = format!("causal + token_scales(k={k:?}, v={v:?}) + head_gate(gate={gate:?})");
        let (qo_lens, kv_lens) = (Lens::List(qo_lens.to_vec()), Lens::List(kv_lens.to_vec()));
        let case = Case { kernel: kind.to_owned(), qo_lens, kv_lens, ..Case::new(variant) };
        simt::check(simt::on_tensor_cores(kind, PrefillBackend::Sm80, vec![case]));
    }
}

/// Rows have more partial states than a merge loads at once.
#[test]
fn fixed_splits() {
    let cases = grid::serving().into_iter().map(|case| Case { fixed_split_size: Some(64), ..case });
    check(simt::sample(&cases.collect::<Vec<_>>(), "decode", 96));
}

/// More than 16 partial states merge in groups of 8, more than 64 in groups of 16.
#[test]
fn many_partials_merge_in_groups() {
    // the last group has one state, seven, one
    for (partials, keys) in [(17, 17 * 128), (23, 23 * 128), (65, 65 * 128)] {
        let case = |variant: &str, head_dim, kv_heads| Case {
            kernel: "decode".to_owned(),
            qo_heads: 4,
            kv_heads,
            head_dim,
            qo_lens: Lens::List(vec![1, 1]),
            kv_lens: Lens::List(vec![keys, 40]),
            seed: 1, // CTAs of later groups end before those of the first
            ..Case::new(variant)
        };
        let cases = [case("causal + sink", 64, 1), case("sigmoid", 256, 2)];
        let cases = simt::on_tensor_cores("decode", PrefillBackend::Sm80, cases);
        simt::check_merges(2 * partials + 4, partials, cases);
    }
    // of a union, whose branches are launches of their own
    let union = "union(sliding_window(window=64), not(sliding_window(window=64)) + soft_cap(cap=3))";
    let case = Case {
        kernel: "decode".to_owned(),
        qo_lens: Lens::List(vec![1]),
        kv_lens: Lens::List(vec![2000]),
        fixed_split_size: Some(64),
        ..Case::new(union)
    };
    simt::check_merges(64, 17, simt::on_tensor_cores("decode", PrefillBackend::Sm80, [case]));
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn the_large_grids() {
    check([grid::serving(), grid::dims()].concat());
}
