//! After `Engine::prepare`, planning and ops on a GPU load and compile nothing. Skipped without a GPU.

use attn::ops::{self, KvTransform, Op};
use attn::prelude::*;
use attn::{Graph, PrepareOptions, Workload};
use attn_kernels::cache::{Counts, CubinCache};
use attn_tests::gpu::gpu;

const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 64 };

/// What the process has asked the cache for. Each load of a kernel asks once.
fn asked() -> Counts {
    CubinCache::global().stats()
}

/// It runs alone in its process (under nextest, or by its name), because the counts are those of the process.
#[test]
fn what_was_prepared_is_neither_compiled_nor_loaded_again() {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let Some(engine) = gpu() else { return };
    let attention = |expr: &str| {
        let variant = Variant::parse(expr).expect("stock");
        engine.attention(&variant, HEADS, Dtypes::f16()).expect("supported")
    };
    let (causal, union) = (attention("causal"), attention("union(sliding_window(window=70), causal)"));
    let rope = KvTransform::new(&engine, &Variant::parse("rope").expect("stock"), HEADS).expect("supported");

    // decode, prompts, and a prefix of 600 keys that 16 requests share
    let decode: Vec<i32> = (0..=16).collect();
    let (keys, own) =
        ((0..=16).map(|i| 700 * i).collect::<Vec<_>>(), (0..=16).map(|i| 600 + 90 * i).collect::<Vec<_>>());
    let decodes = Batch::ragged(&decode, &keys);
    let prompts = Batch::ragged(&[0, 512, 1000], &[0, 512, 1000]);
    let levels = [
        CascadeLevel { qo_indptr: &[0, 16], kv: CascadeLevelKv::Ragged(&[0, 600]) },
        CascadeLevel { qo_indptr: &decode, kv: CascadeLevelKv::Ragged(&own) },
    ];
    let cascade = Batch::cascade(&decode, &levels);
    let capacity = BatchCapacity::decode(64, 64 * 512).in_pages(16, 2048);
    let needs = [
        Workload::Batch { attention: &causal, batch: &decodes },
        Workload::Batch { attention: &union, batch: &decodes },
        Workload::Batch { attention: &causal, batch: &prompts },
        Workload::Batch { attention: &causal, batch: &cascade },
        Workload::Capacity { attention: &causal, capacity },
        Workload::Capacity { attention: &causal, capacity: capacity.in_levels(2) },
        Workload::DeviceUpdates { attention: &causal },
        Workload::Op { op: Op::Copy },
        Workload::Append { transform: &rope, from: Dtype::F16, to: Dtype::E4m3 },
    ];
    let mut reported = Vec::new();
    let mut record =
        |progress: attn::Progress<'_>| reported.push((progress.done, progress.total, progress.result.is_ok()));
    let options = PrepareOptions { threads: Some(4), progress: Some(&mut record) };
    let report = engine.prepare_with(&needs, options).expect("every kernel compiles");
    let all = report.kernels();
    assert!(all >= 8, "at least one kernel a need: {report:?}");
    assert_eq!(reported, (1..=all).map(|done| (done, all, true)).collect::<Vec<_>>());

    let before = asked();
    let mut workspace = engine.workspace();
    for (attention, batch) in [(&causal, &decodes), (&union, &decodes), (&causal, &prompts), (&causal, &cascade)] {
        attention.plan(batch, &mut workspace).expect("planned");
    }
    let no_pages = PageTable { indptr: &[0], indices: &[], last_page_len: &[], page_size: 16, num_pages: 2048 };
    let empty = Batch::paged(&[0], &no_pages);
    let within = |capacity| PlanOptions { capacity: Some(capacity), ..PlanOptions::default() };
    let mut of_levels = causal.plan_with(&empty, &mut workspace, within(capacity.in_levels(2))).expect("planned");
    of_levels.prepare_device_updates().expect("mixed lists, with and without levels");
    let mut plan = causal.plan_with(&empty, &mut workspace, within(capacity)).expect("planned");
    plan.prepare_device_updates().expect("decode");
    rope.prepare(Dtype::F16, Dtype::E4m3).expect("loaded");
    // a capture refuses to load a kernel
    let stream = engine.stream().expect("a stream");
    let mut pool = engine.alloc(Dtype::F16, 4 * 16 * 2 * 64 * 2).expect("memory");
    let pairs = ops::DeviceArray::upload(&engine, &[[0, 1]]).expect("memory");
    Graph::capture(&stream, || {
        let mut pool = ops::KvMut::fused(pool.tensor_mut(&[4, 2, 16, 2, 64])?, PageOrder::Nhd)?;
        ops::copy_pages(&stream, &mut pool, &pairs.array(), None)
    })
    .expect("nothing is loaded");
    assert_eq!(asked(), before, "planning asked the cache for a kernel");

    let again = engine.prepare(&needs).expect("prepared");
    assert_eq!((again.kernels(), again.compiled, again.disk), (all, 0, 0), "{again:?}");
    let too_many = Workload::Capacity { attention: &causal, capacity: BatchCapacity::decode(1, u32::MAX) };
    let error = engine.prepare(&[too_many]).expect_err("too many keys");
    assert!(matches!(error, attn::Error::Batch(_)), "{error}");
    let union_updates =
        engine.prepare(&[Workload::DeviceUpdates { attention: &union }]).expect_err("only the host plans a union");
    assert!(union_updates.to_string().contains("union"), "{union_updates}");
}
