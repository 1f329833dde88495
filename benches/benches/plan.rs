//! Planning: validating a batch and making its work list, which a server does every step. `cargo bench -p attn-benches
//! --bench plan` gives medians; `cargo xtask plan-instructions` counts instructions, which do not depend on other load.
#![allow(missing_docs)] // criterion's macros make undocumented items

use std::hint::black_box;

use attn_benches::{DECODE, GROUPED, page_table, ragged, skewed, variant};
use attn_core::batch::{Batch, Layout, indptr};
use attn_core::plan::{PlanBlob, PlanRule, PlanScratch, Schedule, WorkList};
use attn_core::spec::Heads;
use criterion::{Criterion, criterion_group, criterion_main};

/// The plan rule of prefill on the same GPU.
const PREFILL: PlanRule =
    PlanRule { tile_rows: 128, min_span: 512, workers: 132, schedule: Schedule::LongestFirst, ..DECODE };

/// Times the work list in new and in reused memory, and everything that a server does before the upload of a step, in
/// reused memory: validate, bind, list, pack.
fn plan(c: &mut Criterion, name: &str, text: &str, heads: Heads, rule: &PlanRule, [qo, kv]: [&[u32]; 2]) {
    let mut layout = ragged(qo, kv).expect("sound");
    let dims = layout.dims(heads);
    let variant = variant(text).expect(name).bind(&dims).expect(name);
    let group = format!("plan {name}, {}/{} heads", heads.qo, heads.kv);
    let mut group = c.benchmark_group(group);
    group.bench_function("list", |b| {
        b.iter(|| black_box(WorkList::build_for(&variant, &layout, heads, &(*rule).into()).expect("fits")));
    });
    let (mut work, mut scratch) = (WorkList::default(), PlanScratch::default());
    group.bench_function("list again", |b| {
        b.iter(|| {
            work.rebuild_for(&mut scratch, &variant, &[], black_box(&layout), heads, &(*rule).into()).expect("fits");
        });
    });
    let (qo, kv) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
    let mut blob = PlanBlob::default();
    group.bench_function("all", |b| {
        b.iter(|| {
            Batch::ragged(&qo, &kv).validate_into(&mut layout).expect("sound");
            let bound = variant.bind(&dims).expect("fits");
            work.rebuild_for(&mut scratch, &bound, &[], &layout, heads, &(*rule).into()).expect("fits");
            blob.repack(&layout, &work);
        });
    });
    group.finish();
}

/// Times the validation of page tables, and packing them with a plan.
fn pages(c: &mut Criterion, requests: u32) {
    let (qo, kv) = (vec![1; requests as usize], skewed(requests, 4096));
    let table = page_table(&kv, 16);
    let qo = indptr(&qo).expect("short");
    let mut group = c.benchmark_group(format!("plan decode {requests} x 4k skew, page 16"));
    let mut layout = Layout::default();
    group.bench_function("validate", |b| {
        b.iter(|| Batch::paged(&qo, &table.table()).validate_into(black_box(&mut layout)).expect("sound"));
    });
    let work = WorkList::build_for(&variant("full").expect("stock"), &layout, GROUPED, &DECODE.into()).expect("fits");
    let mut blob = PlanBlob::default();
    group.bench_function("pack", |b| b.iter(|| black_box(&mut blob).repack(&layout, &work)));
    group.finish();
}

fn decode(c: &mut Criterion) {
    for requests in [64, 1024] {
        pages(c, requests);
        let (qo, kv) = (vec![1; requests as usize], skewed(requests, 4096));
        for (name, text) in [("full", "full"), ("window", "causal + sliding_window(window=512)")] {
            let name = format!("decode {requests} x 4k skew, {name}");
            plan(c, &name, text, GROUPED, &DECODE, [&qo, &kv]);
        }
    }
}

fn prefill(c: &mut Criterion) {
    let plain = Heads { kv: 16, qo: 16, ..GROUPED };
    for (requests, len, heads) in [(4, 4096, plain), (4, 4096, GROUPED), (1, 65_536, GROUPED)] {
        let lens = vec![len; requests];
        plan(c, &format!("prefill {requests} x {len}, causal"), "causal", heads, &PREFILL, [&lens, &lens]);
    }
    let lens = [16_384];
    for (name, text) in
        [("documents", documents(16_384)), ("causal documents", format!("causal + {}", documents(16_384)))]
    {
        for heads in [plain, GROUPED] {
            plan(c, &format!("prefill 1 x 16384, {name}"), &text, heads, &PREFILL, [&lens, &lens]);
        }
    }
}

/// Documents of 200 to 1500 tokens in one sequence.
fn documents(len: u32) -> String {
    let mut of = Vec::new();
    for document in 0u32.. {
        let left = len as usize - of.len();
        if left == 0 {
            break;
        }
        of.extend(vec![document.to_string(); left.min((200 + document * 377 % 1300) as usize)]);
    }
    let of = of.join(", ");
    format!("documents(of_query=[{of}], of_key=[{of}])")
}

criterion_group!(benches, decode, prefill);
criterion_main!(benches);
