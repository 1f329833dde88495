//! Prefix lookup, sequences and steps. `benches/kvbm-logical` has the lookup beside kvbm-logical's.

use std::hint::black_box;

use attn_cache::{Namespace, Pages, Prefix, ReadCost, Sequence, Step, StepCapacity, Token};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

const PAGE: usize = 16;

/// Finds and locks a cached prompt, and gives it back.
fn lookup(c: &mut Criterion) {
    let mut group = c.benchmark_group("lookup");
    for count in [8, 32, 128, 512] {
        let pages = Pages::new(count, PAGE).expect("a pool");
        let prefix = Prefix::new(&pages);
        let prompt: Vec<Token> = (0..(count * PAGE) as Token + 1).collect();
        let held = pages.alloc(count).expect("free");
        drop(prefix.insert(&Namespace::default(), &prompt, &held).expect("sound"));
        drop(held);
        group.bench_with_input(BenchmarkId::from_parameter(count), &prompt, |b, prompt| {
            b.iter(|| prefix.lookup(&Namespace::default(), black_box(prompt)));
        });
    }
}

/// Decode steps of 64 requests with 4,000 tokens each, of which 2,000 are one prompt.
fn step(c: &mut Criterion) {
    let pages = Pages::new(16_384, PAGE).expect("a pool");
    let mut parent = Sequence::new(&pages);
    parent.append(2000).expect("free");
    parent.commit();
    let mut sequences: Vec<Sequence> = (0..64).map(|_| parent.fork().expect("written")).collect();
    for sequence in &mut sequences {
        sequence.append(2000).expect("free");
        sequence.commit();
        sequence.append(1).expect("free");
    }
    let capacity = StepCapacity { sequences: 64, tokens: 64, pages: 64 * 256, pages_per_sequence: 256, levels: 2 };
    let mut plain = Step::new(&pages, capacity).expect("small");
    c.bench_function("step of 64", |b| b.iter(|| plain.build(black_box(&sequences[..]))));
    let mut grouped = Step::new(&pages, capacity).expect("small").group_prefixes();
    c.bench_function("step of 64 with levels", |b| {
        b.iter(|| {
            grouped.build(black_box(&sequences[..])).expect("within the capacity");
            assert_eq!(grouped.choose_levels(&ReadCost::default()), 2);
        });
    });
}

criterion_group!(benches, lookup, step);
criterion_main!(benches);
