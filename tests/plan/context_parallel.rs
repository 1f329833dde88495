//! Decode context parallelism: each rank runs over its interleaved keys, in a thread of its own, and the merged states
//! are those of one run over all keys.

use std::thread;
use std::time::Duration;

use attn::prelude::*;
use attn::state::{finalize, merge_state};
use attn_core::parallel::{InterleavedShard, ThreadRank};
use attn_tests::setup::Written;
use attn_tests::synthetic::values;

use super::partial::{HEADS, KEYS, QO, ROW, attention, run};

/// Rows of the batch, and elements of a row.
const ROWS: usize = 8 * HEADS.qo as usize;
const DIM: usize = HEADS.head_dim as usize;

/// Masks, scores and transforms of positions, sinks, and transforms of outputs.
const VARIANTS: [&str; 6] = [
    "causal",
    "causal + sliding_window(window=20)",
    "causal + alibi + sink(logits=[0.5, -1, 2, 30])",
    "causal + rope + soft_cap(cap=3)",
    "causal + softmax_n(n=2) + output_norm",
    "full",
];

/// A run over all keys.
fn whole(variant: &str, k: &[f32], v: &[f32]) -> Written {
    run(&attention(variant), &[0, KEYS[0] as i32, (KEYS[0] + KEYS[1]) as i32], k, v, false)
}

/// A run of a rank over its keys, whose states all ranks gather and merge in the order of ranks.
fn of_rank(
    rank: &ThreadRank,
    interleave: usize,
    variant: &str,
    k: &[f32],
    v: &[f32],
) -> Result<Written, Box<dyn std::error::Error>> {
    let shard = InterleavedShard { ranks: rank.ranks(), rank: rank.rank(), interleave };
    let (mut indptr, mut own) = (vec![0], [Vec::new(), Vec::new()]);
    for (request, &keys) in KEYS.iter().enumerate() {
        let first: usize = KEYS[..request].iter().sum();
        for key in (0..shard.kv_len(keys)).map(|of| first + shard.position(of)) {
            own.iter_mut().zip([k, v]).for_each(|(own, all)| own.extend_from_slice(&all[key * ROW..][..ROW]));
        }
        indptr.push((own[0].len() / ROW) as i32);
    }
    let positions = QO.windows(2).zip(KEYS).flat_map(|(ends, keys)| keys - (ends[1] - ends[0]) as usize..keys);
    let positions: Vec<_> = positions.map(|position| position.to_string()).collect();
    let InterleavedShard { ranks, rank: number, .. } = shard;
    let of_query = positions.join(", ");
    let remapped = format!(
        "remap(interleaved_positions(ranks={ranks}, rank={number}, interleave={interleave}, of_query=[{of_query}]), \
        {variant})"
    );
    let Written { o, lse } = run(&attention(&remapped), &indptr, &own[0], &own[1], true);

    let (mut all_o, mut all_lse) = (vec![0.0f32; ranks * o.len()], vec![0.0f32; ranks * lse.len()]);
    rank.all_gather(&TensorRef::host(&o, &[ROWS, DIM])?, &mut TensorMut::host(&mut all_o, &[ranks, ROWS, DIM])?)?;
    rank.all_gather(&TensorRef::host(&lse, &[ROWS])?, &mut TensorMut::host(&mut all_lse, &[ranks, ROWS])?)?;

    let (mut o, mut lse) = (vec![0.0; o.len()], vec![f32::NEG_INFINITY; ROWS]);
    for (o_of, lse_of) in all_o.chunks(ROWS * DIM).zip(all_lse.chunks(ROWS)) {
        for row in 0..ROWS {
            lse[row] = merge_state(&mut o[row * DIM..][..DIM], lse[row], &o_of[row * DIM..][..DIM], lse_of[row]);
        }
    }
    // sinks and transforms of outputs once, at the coordinates of the whole sequence
    let inner = attention(variant);
    let layout = Batch::ragged(&QO, &[0, KEYS[0] as i32, (KEYS[0] + KEYS[1]) as i32]).validate()?;
    let rows = (0..2).flat_map(|request| (0..layout.qo_len(request)).map(move |query| (request, query)));
    let rows = rows.flat_map(|(request, query)| (0..HEADS.qo).map(move |head| (request, query, head)));
    for (row, (request, query, head)) in rows.enumerate() {
        let at = layout.row(HEADS, request, query, head as usize);
        lse[row] = finalize(inner.variant(), &mut o[row * DIM..][..DIM], lse[row], at);
    }
    Ok(Written { o, lse })
}

#[test]
fn ranks_over_interleaved_keys_merge_to_one_run() {
    let keys = KEYS[0] + KEYS[1];
    let (k, v) = (values(keys * ROW, 2), values(keys * ROW, 3));
    for variant in VARIANTS {
        let whole = whole(variant, &k, &v);
        // more ranks than keys of a request: some have none
        for (ranks, interleave) in [(1, 1), (2, 1), (3, 4), (8, 1), (8, 16)] {
            let run = |rank: ThreadRank| of_rank(&rank, interleave, variant, &k, &v).expect("runs");
            let results: Vec<Written> = thread::scope(|scope| {
                let ranks = ThreadRank::group(ranks, Duration::from_secs(60));
                let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            for Written { o, lse } in &results {
                assert!(*o == results[0].o && *lse == results[0].lse, "all ranks have the same bits");
                let apart = |a: &[f32], b: &[f32]| {
                    a.iter().zip(b).map(|(a, b)| (a - b).abs() / (1.0 + b.abs())).fold(0.0, f32::max)
                };
                let apart = [apart(&o[..], &whole.o[..]), apart(&lse[..], &whole.lse[..])];
                assert!(apart[0] < 1e-4 && apart[1] < 1e-4, "{variant}, {ranks} ranks of {interleave}: {apart:?}");
            }
        }
    }
}
