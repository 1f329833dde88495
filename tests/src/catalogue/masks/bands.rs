//! Masks over two positions and scalars: windows, blocks, chunks.

use crate::catalogue::entry::list;
use crate::catalogue::{At, Entry, Formula, Instance};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(1, "causal", |_| Instance::new("causal", Formula::masked(|at| at.j <= at.i))),
        Entry::new(2, "sliding window", |_| {
            let mask = |at: &At| at.j <= at.i && at.i - at.j < 11;
            Instance::new("causal + sliding_window(window=11)", Formula::masked(mask))
        }),
        Entry::new(2, "adaptive spans", |shape| {
            let (short, far) = (3, shape.reach(14));
            let span = move |h: i64| (if h % 2 == 0 { far } else { short + 2 * h }) as f64 + 0.5;
            let spans = list(&(0..shape.qo_heads).map(span).collect::<Vec<_>>());
            let left = move |at: &At| span(at.h) + 4.0 - (at.i - at.j) as f64;
            let mask = move |at: &At| at.j <= at.i && left(at) > 0.0;
            let formula = Formula::masked(mask).logit(move |z, at| z + (left(at) / 4.0).min(1.0).ln());
            Instance::new(format!("adaptive_span(ramp=4, span={spans})"), formula)
        }),
        Entry::new(3, "all but oneself", |_| {
            Instance::new("not(bidirectional_window(left=0, right=0))", Formula::masked(|at| at.i != at.j))
        }),
        Entry::new(3, "bidirectional window", |_| {
            let mask = |at: &At| at.i - 9 <= at.j && at.j <= at.i + 4;
            Instance::new("bidirectional_window(left=9, right=4)", Formula::masked(mask))
        }),
        Entry::new(4, "dilated sliding window", |_| {
            let mask = |at: &At| (at.i - at.j).abs() <= 20 && (at.i - at.j).abs() % 3 == 0;
            Instance::new("dilated_window(window=20, dilation=3)", Formula::masked(mask))
        }),
        Entry::new(10, "block diffusion", |_| {
            let block = |pos: i64| pos % 20 / 6;
            let mask = move |at: &At| {
                let (clean_i, clean_j) = (at.i >= 20, at.j >= 20);
                let diagonal = clean_i == clean_j && block(at.i) == block(at.j);
                let offset_causal = !clean_i && clean_j && block(at.i) > block(at.j);
                let causal = clean_i && clean_j && block(at.i) >= block(at.j);
                diagonal || offset_causal || causal
            };
            Instance::new("block_diffusion(length=20, block=6)", Formula::masked(mask))
        }),
        Entry::new(12, "draft training", |_| {
            let mask = |at: &At| {
                let key = at.j - 9;
                key < 0 || key / 5 == at.row / 5 && key % 5 <= at.row % 5
            };
            Instance::new("draft_training(prefix=9, block=5)", Formula::masked(mask))
        }),
        Entry::new(19, "streaming: first keys and a window", |_| {
            let mask = |at: &At| at.j <= at.i && (at.j < 3 || at.i - at.j < 12);
            Instance::new("streaming(sink=3, window=12)", Formula::masked(mask))
        }),
        Entry::new(19, "DuoAttention: streaming in some heads", |shape| {
            let streams = |h: i64| h % 3 == 1;
            let heads = list(&(0..shape.qo_heads).map(|h| i64::from(streams(h))).collect::<Vec<_>>());
            let mask = move |at: &At| at.j <= at.i && (!streams(at.h) || at.j < 3 || at.i - at.j < 12);
            Instance::new(
                format!("per_head(heads={heads}, causal, streaming(sink=3, window=12))"),
                Formula::masked(mask),
            )
        }),
        Entry::new(20, "causal chunks", |_| {
            let mask = |at: &At| at.i / 13 == at.j / 13 && at.j <= at.i;
            Instance::new("causal + chunked(chunk=13)", Formula::masked(mask))
        }),
        Entry::new(21, "block causal", |_| {
            Instance::new("block_causal(block=7)", Formula::masked(|at| at.i / 7 >= at.j / 7))
        }),
    ]
}
