//! The CPU backend, which is the default where there is no GPU.
#![allow(missing_docs)] // criterion's macros make undocumented items

use attn_benches::{paged, ragged, variant};
use attn_core::batch::Layout;
use attn_core::cpu::{Problem, plan_rule, run};
use attn_core::plan::WorkList;
use attn_core::spec::{HeadDimVo, Heads};
use attn_core::tensor::{Kv, Out, TensorMut, TensorRef};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 128 };

/// One attention in f32, timed. Throughput counts multiplications and additions of attended and masked pairs alike.
fn attention(c: &mut Criterion, name: &str, text: &str, layout: &Layout, page_size: Option<usize>) {
    let variant = variant(text).expect(text).bind(&HEADS.dims()).expect("valid");
    let work = WorkList::build_for(&variant, layout, HEADS, &plan_rule(HEADS).into());
    let work = work.expect("fits");
    let (qo_heads, kv_heads, dim) = (HEADS.qo as usize, HEADS.kv as usize, HEADS.head_dim as usize);
    let values = |len: usize| (0..len).map(|i| ((i * 2_654_435_761) % 1024) as f32 / 512.0 - 1.0).collect::<Vec<_>>();
    let q = values(layout.qo_tokens() * qo_heads * dim);
    let shape = match (layout.pages(), page_size) {
        (Some(pages), Some(slots)) => vec![pages.indices().len(), slots, kv_heads, dim],
        _ => vec![layout.kv_tokens(), kv_heads, dim],
    };
    let (k, v) = (values(shape.iter().product()), values(shape.iter().product()));
    let kv = Kv::ragged(TensorRef::host(&k, &shape).expect("fits"), TensorRef::host(&v, &shape).expect("fits"));
    let qo_shape = [layout.qo_tokens(), qo_heads, dim];
    let problem = Problem {
        variant: &variant,
        heads: HEADS,
        head_dim_vo: HeadDimVo::Same,
        sm_scale: HEADS.default_sm_scale(),
        layout,
        work: &work,
        q: TensorRef::host(&q, &qo_shape).expect("fits"),
        kv,
    };
    let mut o = vec![0f32; q.len()];
    let pairs: usize = (0..layout.batch()).map(|r| layout.qo_len(r) * layout.kv_len(r)).sum();
    let mut group = c.benchmark_group("cpu f32 8/2 d128");
    group.throughput(Throughput::Elements((4 * pairs * qo_heads * dim) as u64)).sample_size(20);
    group.bench_function(format!("{name} {text}"), |b| {
        b.iter(|| {
            let o = TensorMut::host(&mut o, &qo_shape).expect("fits");
            run(&problem, Out::new(o)).expect("runs");
        });
    });
    group.finish();
}

fn cpu(c: &mut Criterion) {
    let prefill = ragged(&[512, 512], &[512, 512]).expect("sound");
    for text in ["full", "causal", "causal + soft_cap(cap=30)", "causal + rope"] {
        attention(c, "prefill 2 x 512", text, &prefill, None);
    }
    let decode = paged(&[1; 8], &[4096; 8], 16).expect("sound");
    for text in ["full", "causal + sliding_window(window=512)"] {
        attention(c, "decode 8 x 4096, page 16", text, &decode, Some(16));
    }
}

criterion_group!(benches, cpu);
criterion_main!(benches);
