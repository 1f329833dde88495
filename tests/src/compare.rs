//! Compares every hook of a variant, as C++ on the host and as Rust, on random coordinates.

use attn_core::Variant;
use attn_core::lang::{Hook, KvIndex, LogitIndex, QueryTile, RowIndex, RowState, Tile};
use rand::{Rng, rngs::SmallRng};

use crate::host::HostText;

/// The head dim of the rows that hooks transform.
pub const HEAD_DIM: i64 = 16;

/// Compares every hook, including the trivial ones.
///
/// # Panics
/// A hook differs. The message names the hook and its input.
pub fn compare(variant: &Variant, rng: &mut SmallRng, rounds: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    compare_with(&HostText::compile(variant, folder.path()), variant, rng, rounds);
}

/// [`compare`] with text that is already compiled. The text does not depend on parameter values.
///
/// # Panics
/// A hook differs. The message names the hook and its input.
pub fn compare_with(text: &HostText, variant: &Variant, rng: &mut SmallRng, rounds: usize) {
    let host = text.with(variant);
    for _ in 0..rounds {
        let at = random_index(rng);
        let logit = random_logit(rng);
        let mut one = [logit];
        variant.logits_tile(&mut one, at);
        assert_close(variant, Hook::LogitsTransform, host.logits_transform(logit, at), one[0], (logit, at));

        let mut keep = [true];
        variant.mask_tile(&mut keep, at);
        assert_eq!(host.logits_mask(at), keep[0], "{variant}: logits_mask of {at:?}");

        let row_max = if rng.random() { 0.0 } else { rng.random::<f32>() * 50.0 };
        let mut one = [logit];
        variant.weight_tile(&mut one, row_max, at);
        assert_close(variant, Hook::Weight, host.weight(logit, row_max, at), one[0], (logit, row_max, at));

        let mut one = [logit];
        let weight = rng.random::<f32>();
        variant.denominator_tile(&mut one, &[weight], row_max, at);
        let input = (logit, row_max, weight, at);
        assert_close(variant, Hook::Denominator, host.denominator(logit, row_max, weight, at), one[0], input);

        assert_close(variant, Hook::SinkLogit, host.sink_logit(at.row), variant.sink_logit(at.row), at);

        let tile = random_tile(rng);
        assert_eq!(host.tile_class(tile), variant.tile_class(tile), "{variant}: tile_class of {tile:?}");
    }
    for _ in 0..rounds / 10 {
        let at = random_index(rng);
        if let Some(bounds) = host.kv_bounds(at.row) {
            let first = LogitIndex { row: at.row, kv_pos: 0, kv_token: at.kv_token - at.kv_pos, kv_slot: 0 };
            let mut keep = [true; 96];
            variant.mask_tile(&mut keep, first);
            let inside = keep.iter().zip(0..).all(|(&keep, key)| keep == bounds.contains(&key));
            assert!(inside, "{variant}: keys of {at:?} are not {bounds:?}");
        }
        if variant.has(Hook::KvListLen) {
            let n = rng.random_range(0..9);
            assert_eq!(host.kv_list_len(at.row), variant.kv_list_len(at.row), "{variant}: kv_list_len of {at:?}");
            let (got, want) = (host.kv_list_block(at.row, n), variant.kv_list_block(at.row, n));
            assert_eq!(got, want, "{variant}: kv_list_block {n} of {at:?}");
        }
        let key = KvIndex {
            batch: at.batch,
            kv_pos: at.kv_pos,
            kv_token: at.kv_token,
            kv_head: at.kv_head,
            kv_len: at.kv_len,
        };
        let state = RowState { row_max: rng.random(), denominator: rng.random::<f32>() * 3.0, lse: rng.random() };
        let values: Vec<f32> = (0..HEAD_DIM).map(|_| (rng.random::<f32>() - 0.5) * 8.0).collect();
        let both = |got: &dyn Fn(&mut [f32]), want: &dyn Fn(&mut [f32]), hook: Hook| {
            let (mut a, mut b) = (values.clone(), values.clone());
            got(&mut a);
            want(&mut b);
            for (a, b) in a.iter().zip(&b) {
                assert_close(variant, hook, *a, *b, at);
            }
        };
        both(&|x| host.query_row(x, at.row), &|x| variant.query_row(x, at.row), Hook::QueryTransform);
        both(&|x| host.key_row(x, key), &|x| variant.key_row(x, key), Hook::KeyTransform);
        both(&|x| host.value_row(x, key), &|x| variant.value_row(x, key), Hook::ValueTransform);
        both(&|x| host.output_row(x, state, at.row), &|x| variant.output_row(x, state, at.row), Hook::OutputTransform);
    }
}

/// Asserts that two values are equal, both NaN, or at most 4 units in the last place apart.
fn assert_close(variant: &Variant, hook: Hook, got: f32, want: f32, input: impl std::fmt::Debug) {
    let close = got.to_bits() == want.to_bits()
        || got == want
        || got.is_nan() && want.is_nan()
        || (got - want).abs() <= 4.0 * f32::EPSILON * want.abs();
    assert!(close, "{variant}: {} of {input:?} is {want} in Rust, {got} in C++", hook.method());
}

fn random_logit(rng: &mut SmallRng) -> f32 {
    match rng.random_range(0..20) {
        0 => f32::NAN,
        1 => f32::INFINITY,
        2 => f32::NEG_INFINITY,
        3 => -0.0,
        4 => f32::from(rng.random_range(-6i8..6)) + 0.5,
        5 => rng.random_range(-300.0f32..300.0),
        6 => rng.random_range(-3e9..3e9),
        7 => f32::MIN_POSITIVE * rng.random::<f32>(),
        _ => rng.random_range(-12.0..12.0),
    }
}

/// A random index, which may be out of bounds of every tensor: edge tiles call hooks there.
fn random_index(rng: &mut SmallRng) -> LogitIndex {
    let kv_len = rng.random_range(0..70);
    let qo_len = rng.random_range(0..40);
    let qo_row = rng.random_range(0..64);
    let qo_head = rng.random_range(0..8);
    let kv_pos = if rng.random_range(0..8) == 0 { rng.random_range(0..200_000) } else { rng.random_range(0..80) };
    let row = RowIndex {
        batch: rng.random_range(0..3),
        qo_row,
        qo_pos: qo_row + kv_len - qo_len,
        qo_token: rng.random_range(0..64),
        qo_head,
        kv_head: qo_head / 2,
        qo_len,
        kv_len,
    };
    LogitIndex { row, kv_pos, kv_token: rng.random_range(0..100), kv_slot: rng.random_range(0..9) }
}

fn random_tile(rng: &mut SmallRng) -> Tile {
    let [q, k, row, token, key] = [-20..60, 0..60, 0..64, 0..64, 0..100].map(|from| rng.random_range(from));
    let (queries, keys) = (rng.random_range(0..16), rng.random_range(0..16));
    let (head, heads) = (rng.random_range(0..8), rng.random_range(0..3));
    let rows = QueryTile {
        batch: rng.random_range(0..3),
        qo_row_min: row,
        qo_row_max: row + queries,
        qo_pos_min: q,
        qo_pos_max: q + queries,
        qo_token_min: token,
        qo_token_max: token + queries,
        qo_head_min: head,
        qo_head_max: head + heads,
        kv_head_min: head / 2,
        kv_head_max: (head + heads) / 2,
        qo_len: rng.random_range(0..40),
        kv_len: rng.random_range(0..70),
    };
    Tile { rows, kv_pos_min: k, kv_pos_max: k + keys, kv_token_min: key, kv_token_max: key + keys }
}
