//! Masks in other coordinates: batches in a sequence, given positions, chunks of a ring.

use crate::catalogue::entry::list;
use crate::catalogue::{At, Entry, Formula, Instance};

/// ALiBi slopes, so that logits depend on the remapped positions.
fn slope(h: i64) -> f64 {
    0.125 * (h + 1) as f64
}

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(17, "batches in one sequence", |shape| {
            let slopes = list(&(0..shape.qo_heads).map(slope).collect::<Vec<_>>());
            let block = shape.reach(9);
            let inner = move |pos: i64| pos % block;
            let mask = move |at: &At| at.i / block == at.j / block && inner(at.j) <= inner(at.i);
            let formula =
                Formula::masked(mask).logit(move |z, at| z + slope(at.h) * (inner(at.j) - inner(at.i)) as f64);
            Instance::new(format!("remap(batchify(block={block}), causal + alibi(slopes={slopes}))"), formula)
        }),
        Entry::new(28, "chunks of a ring", |shape| {
            let (start, window) = (90 + shape.reach(11), shape.reach(30));
            let mask = move |at: &At| at.j + 90 <= at.row + start && at.row + start - (at.j + 90) < window;
            let map = format!("chunk_positions(qo_start={start}, kv_start=90)");
            Instance::new(format!("remap({map}, causal + sliding_window(window={window}))"), Formula::masked(mask))
        }),
        Entry::new(28, "given positions", |shape| {
            // two chunks with a gap between: queries and keys of different ranks
            let position = |pos: i64, chunk: i64| if pos < chunk { pos + chunk } else { pos + 6 * chunk };
            let (q, k) = (shape.per_query(|_, i| position(i, 8)), shape.per_key(|_, j| position(j, 11)));
            let map = format!("positions(of_query={}, of_key={})", list(&q), list(&k));
            let slopes: Vec<f64> = (0..shape.qo_heads).map(|h| slope(h) / 64.0).collect();
            let mask = move |at: &At| position(at.j, 11) <= position(at.i, 8);
            let distance = move |at: &At| (position(at.j, 11) - position(at.i, 8)) as f64;
            let formula = Formula::masked(mask).logit(move |z, at| z + slope(at.h) / 64.0 * distance(at));
            Instance::new(format!("remap({map}, causal + alibi(slopes={}))", list(&slopes)), formula)
        }),
        Entry::new(28, "a rank's share of decode context parallelism", |shape| {
            // rank 1 of 3, in runs of 4 tokens; queries are the last of the whole sequence, thrice as long
            let position = |j: i64| (j / 4 * 3 + 1) * 4 + j % 4;
            let lens = shape.lens.clone();
            let q = shape.per_query(|b, i| i + 2 * lens[b as usize].1);
            let map = format!("interleaved_positions(ranks=3, rank=1, interleave=4, of_query={})", list(&q));
            let slopes: Vec<f64> = (0..shape.qo_heads).map(|h| slope(h) / 64.0).collect();
            let distance = move |at: &At| (position(at.j) - at.i - 2 * at.kv_len) as f64;
            let formula = Formula::masked(move |at| distance(at) <= 0.0)
                .logit(move |z, at| z + slope(at.h) / 64.0 * distance(at));
            Instance::new(format!("remap({map}, causal + alibi(slopes={}))", list(&slopes)), formula)
        }),
    ]
}
