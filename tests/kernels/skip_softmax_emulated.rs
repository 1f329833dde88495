//! Prefill on WGMMA leaves tiles out (`AttentionOptions::skip_softmax`), as it says and within its bound.

use attn_core::spec::{PrefillBackend, skipped_share};
use attn_testing::{Case, Host, Inputs, LayoutKind, Lens};
use attn_tests::simt;
use half::bf16;

const DIM: usize = 128;
/// Keys of a KV tile of this head dim.
const TILE: usize = 128;
const KEYS: usize = 6 * TILE - 20;
/// Rows of two Q tiles, of which the second has one row in its second warpgroup.
const ROWS: usize = 128 + 65;
const THRESHOLD: f32 = 10.0;

/// The logits of each tile, the last of which is visited first. Two tiles lie 10 or more below those before them.
const LOGITS: [f32; 6] = [1.0, -7.125, -6.875, 3.0, -11.0, 0.0];
const SKIPPED: [bool; 6] = [false, true, false, false, true, false];

fn case(skip_softmax: Option<f32>) -> Case {
    Case {
        kernel: "prefill".to_owned(),
        prefill: PrefillBackend::Sm90,
        head_dim: DIM as u32,
        qo_heads: 1,
        kv_heads: 1,
        qo_lens: Lens::List(vec![ROWS as u32]),
        kv_lens: Lens::List(vec![KEYS as u32]),
        sm_scale: Some(1.0),
        skip_softmax,
        ..Case::new("full")
    }
}

fn elements(host: &mut Host) -> &mut [bf16] {
    match host {
        Host::Bf16(elements) => elements,
        _ => panic!("the case has bf16"),
    }
}

/// Sets logits by tile. The logits of rows of `other` are 0.
fn set_logits(inputs: &mut Inputs, other: &[usize]) {
    for (row, q) in elements(&mut inputs.q)[..ROWS * DIM].chunks_mut(DIM).enumerate() {
        q.fill(bf16::ZERO);
        q[usize::from(other.contains(&row))] = bf16::ONE;
    }
    for (key, k) in elements(&mut inputs.k)[..KEYS * DIM].chunks_mut(DIM).enumerate() {
        k.fill(bf16::ZERO);
        // some keys lie further below
        k[0] = bf16::from_f32(LOGITS[key / TILE] - (key % 3) as f32);
    }
}

fn fill_values(inputs: &mut Inputs, tile: usize, value: f32) {
    let values = &mut elements(&mut inputs.v)[..KEYS * DIM];
    values[tile * TILE * DIM..((tile + 1) * TILE * DIM).min(KEYS * DIM)].fill(bf16::from_f32(value));
}

fn is_nan(o: &[f32]) -> bool {
    o.iter().all(|x| x.is_nan())
}

/// A product with NaN is NaN, so that rows show which tiles have been multiplied.
#[test]
fn tiles_below_the_threshold_are_left_out() {
    let of_tile = |tile| {
        let edit = |inputs: &mut Inputs| {
            set_logits(inputs, &[]);
            fill_values(inputs, tile, f32::NAN);
        };
        simt::outputs(case(Some(THRESHOLD)), edit).0
    };
    for (tile, skipped) in SKIPPED.into_iter().enumerate() {
        let o = of_tile(tile);
        assert!(if skipped { o.iter().all(|x| x.is_finite()) } else { is_nan(&o) }, "tile {tile}");
    }
}

/// The exact result differs by what skipped tiles weigh: by no more than the bound, and by more than rounding.
#[test]
fn the_error_is_within_the_bound() {
    const LARGE: f32 = 64.0;
    let edit = |inputs: &mut Inputs| {
        set_logits(inputs, &[]);
        (0..6).for_each(|tile| fill_values(inputs, tile, if SKIPPED[tile] { LARGE } else { 0.0 }));
    };
    let (o, lse) = simt::outputs(case(Some(THRESHOLD)), edit);
    let (exact, exact_lse) = simt::outputs(case(None), edit);
    let share = skipped_share(THRESHOLD, 2 * TILE as u64) as f32;
    assert!(o.iter().all(|&x| x == 0.0), "nothing of the skipped tiles");
    // values range from 0 to LARGE; P of the exact kernel is rounded to eight bits
    assert!(exact.iter().all(|&x| x > 1e-5 * LARGE && x <= 1.01 * share * LARGE), "{} of {share}", exact[0] / LARGE);
    for (lse, exact) in lse.iter().zip(exact_lse) {
        let below = exact - lse;
        assert!(below > 1e-5 && below <= share * 1.01, "{below} of {share}");
    }
}

/// A tile is multiplied for all 64 rows of a warpgroup where one of them needs it.
#[test]
fn a_warpgroup_leaves_a_tile_out_only_as_a_whole() {
    let edit = |inputs: &mut Inputs| {
        set_logits(inputs, &[37]);
        fill_values(inputs, 1, f32::NAN);
    };
    let (o, _) = simt::outputs(case(Some(THRESHOLD)), edit);
    assert!(is_nan(&o[..64 * DIM]), "row 37 sees the tile");
    assert!(o[64 * DIM..].iter().all(|x| x.is_finite()), "other warpgroups leave it out");
}

/// Row by row, as fixed splits rescale, since these compare tiles with the exact maximum.
#[test]
fn a_threshold_that_no_tile_reaches_changes_no_bit() {
    for (variant, head_dim, kv_layout) in [("causal", 128, LayoutKind::Ragged), ("alibi", 64, LayoutKind::Paged)] {
        let of = |skip_softmax, fixed_split_size| Case {
            skip_softmax,
            fixed_split_size,
            kernel: "prefill".to_owned(),
            prefill: PrefillBackend::Sm90,
            head_dim,
            kv_layout,
            qo_lens: Lens::List(vec![400, 300]),
            kv_lens: Lens::List(vec![400, 330]),
            ..Case::new(variant)
        };
        let [skips, splits] = &simt::bits([of(Some(1e30), None), of(None, Some(1 << 20))])[..] else {
            panic!("two results")
        };
        assert!(skips == splits, "{variant}");
    }
}

/// Biases bring far tiles below the threshold. Rows are of several heads, and some of padding.
#[test]
fn skipped_tiles_are_within_tolerance() {
    let case = |(number, (variant, kernel)): (usize, (&str, &str))| Case {
        kernel: kernel.to_owned(),
        prefill: PrefillBackend::Sm90,
        head_dim: [64, 128, 256][number % 3].min(if kernel == "mixed" { 128 } else { 256 }),
        kv_layout: [LayoutKind::Ragged, LayoutKind::Paged][number % 2],
        qo_lens: Lens::List(vec![70, 0, 150, 1]),
        kv_lens: Lens::List(vec![1000, 9, 150, 1]),
        q_std: Some(4.0),
        seed: number as u64,
        skip_softmax: Some(16.0),
        ..Case::new(variant)
    };
    let variants = [
        ("causal + alibi", "prefill"),
        ("causal", "prefill"),
        ("causal + sink", "prefill"),
        ("full", "prefill"),
        ("causal + soft_cap(cap=30)", "prefill"),
        ("causal + sliding_window(window=100)", "mixed"),
        ("causal + alibi", "mixed"),
    ];
    simt::check(variants.into_iter().enumerate().map(case));
}
