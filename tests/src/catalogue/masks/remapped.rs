//! Masks in other coordinates: batches in a sequence, given positions, chunks of a ring.

use crate::catalogue::entry::list;
use crate::catalogue::{At, Entry, Formula, Made};

/// Slopes that tell positions apart.
fn slope(h: i64) -> f64 {
    0.125 * (h + 1) as f64
}

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(17, "batches in one sequence", |shape| {
            let slopes = list(&(0..shape.qo_heads).map(slope).collect::<Vec<_>>());
            let mask = |at: &At| at.i / 9 == at.j / 9 && at.j % 9 <= at.i % 9;
            let formula = Formula::masked(mask).logit(|z, at| z + slope(at.h) * (at.j % 9 - at.i % 9) as f64);
            Made::new(format!("remap(batchify(block=9), causal + alibi(slopes={slopes}))"), formula)
        }),
        Entry::new(28, "chunks of a ring", |_| {
            let mask = |at: &At| at.j + 90 <= at.row + 101 && at.row + 101 - (at.j + 90) < 30;
            let expr = "remap(chunk_positions(qo_start=101, kv_start=90), causal + sliding_window(window=30))";
            Made::new(expr, Formula::masked(mask))
        }),
        Entry::new(28, "given positions", |shape| {
            // two chunks, the second far behind: queries and keys of other ranks
            let place = |pos: i64, chunk: i64| if pos < chunk { pos + chunk } else { pos + 6 * chunk };
            let (q, k) = (shape.per_query(|_, i| place(i, 8)), shape.per_key(|_, j| place(j, 11)));
            let map = format!("positions(of_query={}, of_key={})", list(&q), list(&k));
            let slopes: Vec<f64> = (0..shape.qo_heads).map(|h| slope(h) / 64.0).collect();
            let mask = move |at: &At| place(at.j, 11) <= place(at.i, 8);
            let distance = move |at: &At| (place(at.j, 11) - place(at.i, 8)) as f64;
            let formula = Formula::masked(mask).logit(move |z, at| z + slope(at.h) / 64.0 * distance(at));
            Made::new(format!("remap({map}, causal + alibi(slopes={}))", list(&slopes)), formula)
        }),
    ]
}
