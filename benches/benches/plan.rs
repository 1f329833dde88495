//! Planning: validating a batch and making its work list, which a server does every step.
#![allow(missing_docs)] // criterion's macros make undocumented items

use std::hint::black_box;

use attn_benches::{paged, ragged, skewed, variant};
use attn_core::{
    plan::{PlanRule, WorkList},
    spec::Heads,
};
use criterion::{Criterion, criterion_group, criterion_main};

const HEADS: Heads = Heads { qo: 32, kv: 8, head_dim: 128 };
const RULE: PlanRule = PlanRule { tile_rows: 8, kv_align: 64, target_items: 132, min_span: 256, longest_first: true };

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan decode");
    for requests in [16, 64, 256] {
        let (qo, kv) = (vec![1; requests as usize], skewed(requests, 4096));
        group.bench_function(format!("validate {requests} x 4k skew, page 16"), |b| {
            b.iter(|| black_box(paged(&qo, &kv, 16).expect("sound")));
        });
        let layout = paged(&qo, &kv, 16).expect("sound");
        for text in ["full", "causal + sliding_window(window=512)"] {
            let variant = variant(text).expect(text);
            group.bench_function(format!("list {requests} x 4k skew, {text}"), |b| {
                b.iter(|| {
                    let work = WorkList::build_for(&variant, &layout, HEADS, &RULE);
                    black_box(work.expect("fits"))
                });
            });
        }
    }
    group.finish();
}

fn prefill(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan prefill");
    let rule = PlanRule { tile_rows: 128, min_span: 512, ..RULE };
    for (requests, len) in [(4, 4096), (1, 65_536)] {
        let lens = vec![len; requests];
        let layout = ragged(&lens, &lens).expect("sound");
        let variant = variant("causal").expect("causal");
        group.bench_function(format!("list {requests} x {len}, causal"), |b| {
            b.iter(|| {
                let work = WorkList::build_for(&variant, &layout, HEADS, &rule);
                black_box(work.expect("fits"))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decode, prefill);
criterion_main!(benches);
