//! Captured steps in buckets of batch sizes against plans of their own: on the CPU, and on a GPU if there is one.

use attn::batch::{BatchError, DeviceBatch, DevicePages, I32Slice, PageTableBuf, indptr};
use attn::prelude::*;
use attn::{DeviceBuffer, Error, Graph, GraphBuckets, Out, Stream};
use attn_tests::{gpu::engines, synthetic::values};

use crate::captures;

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };
const ROW: usize = 4 * 64;
const PAGE: u32 = 16;
const PAGES: u32 = 200;

fn attention(engine: &Engine, text: &str) -> Attention {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    engine.attention(&Variant::parse(text).expect(text), HEADS, Dtypes::bf16()).expect("bound")
}

struct Memory {
    q: DeviceBuffer,
    pool: DeviceBuffer,
    /// Pools of two layers.
    o: [DeviceBuffer; 2],
}

impl Memory {
    fn new(engine: &Engine, rows: usize) -> Self {
        let upload = |count, seed| {
            let values: Vec<bf16> = values(count, seed).into_iter().map(bf16::from_f32).collect();
            engine.upload(&values).expect("memory")
        };
        let nan = || engine.upload(&vec![bf16::NAN; rows * ROW]).expect("memory");
        let pool = (PAGES * PAGE) as usize * 2 * 64;
        Memory { q: upload(rows * ROW, 1), pool: upload(pool, 2), o: [nan(), nan()] }
    }

    fn run(
        &mut self,
        plan: &Plan,
        layer: Option<&Attention>,
        at: usize,
        rows: usize,
        on: &Stream,
    ) -> Result<(), Error> {
        let (q, pool) = (self.q.tensor(&[rows, 4, 64])?, self.pool.tensor(&[PAGES as usize, 16, 2, 64])?);
        let out = Out::new(self.o[at].tensor_mut(&[rows, 4, 64])?);
        plan.run_with(on, q, Kv::paged(pool, pool), out, RunOptions { layer, ..Default::default() })
    }

    fn written(&self, engine: &Engine) -> [Vec<f32>; 2] {
        [0, 1].map(|at| engine.download_f32(&self.o[at]).expect("ran"))
    }
}

fn pages(lens: &[u32]) -> PageTableBuf {
    let mut next = 0;
    PageTableBuf::from_lens(lens, PAGE, PAGES, || {
        next = (next + 7) % PAGES as i32;
        next
    })
}

/// Requests that decode one query each.
const STEPS: [&[u32]; 7] = [&[5], &[700, 33, 1], &[6], &[90, 1, 64, 900, 2], &[701, 34, 2], &[8; 8], &[702, 35]];

#[test]
fn steps_use_the_smallest_bucket_and_match_plans_of_their_own() {
    let _beside = captures::beside();
    for engine in engines() {
        let near = attention(&engine, "causal + sliding_window(window=50)");
        let far = near
            .with_parameters(&Variant::parse("causal + sliding_window(window=500)").expect("stock"))
            .expect("values");
        let capacity = BatchCapacity::decode(8, 4000).in_pages(PAGE, PAGES);
        // a plan for each layer; then one plan for both
        for lists in [&[&[&near][..], &[&far]][..], &[&[&near, &far]]] {
            let mut buckets = GraphBuckets::new(&engine, lists, &capacity, &[8, 1, 4, 4]).expect("planned");
            assert!(buckets.capacities().map(|capacity| capacity.requests).eq([1, 4, 8]));
            assert_eq!(buckets.workspace_bytes() == 0, engine.is_cpu());
            let stream = engine.stream().expect("a stream");
            let mut memory = Memory::new(&engine, 8);
            for lens in STEPS {
                let (qo, table) = (indptr(&vec![1; lens.len()]).expect("short"), pages(lens));
                let batch = Batch::paged(&qo, &table.table());
                let mut bucket = 0;
                // SAFETY: the buffers live as long as the buckets, and every step uses the same.
                let ran = unsafe {
                    buckets.run(&stream, &batch, |step| {
                        bucket = step.capacity.requests;
                        for (at, layer) in [&near, &far].into_iter().enumerate() {
                            let plan = &step.plans[at.min(lists.len() - 1)];
                            let layer = (lists.len() == 1).then_some(layer);
                            memory.run(plan, layer, at, step.capacity.qo_tokens as usize, step.stream)?;
                        }
                        Ok(())
                    })
                };
                ran.expect("ran");
                let want_bucket = [1, 4, 8].into_iter().find(|&size| size as usize >= lens.len());
                assert!(bucket == 0 && !engine.is_cpu() || Some(bucket) == want_bucket);
                let got = memory.written(&engine);
                let mut alone = Memory::new(&engine, 8);
                for (at, layer) in [&near, &far].into_iter().enumerate() {
                    let mut workspace = engine.workspace();
                    let plan = layer.plan(&batch, &mut workspace).expect("sound");
                    alone.run(&plan, None, at, lens.len(), &stream).expect("runs");
                    stream.synchronize().expect("ran");
                }
                let want = alone.written(&engine);
                let rows = lens.len() * ROW;
                for at in [0, 1] {
                    let same = |(x, y): (&f32, &f32)| (x - y).abs() <= 0.02 * (1.0 + y.abs());
                    assert!(got[at].iter().zip(&want[at]).take(rows).all(same), "{engine}, layer {at}: {lens:?}");
                }
            }
            let (qo, table) = (indptr(&[1; 9]).expect("short"), pages(&[3; 9]));
            // SAFETY: nothing is launched.
            let ran = unsafe { buckets.run(&stream, &Batch::paged(&qo, &table.table()), |_| panic!("called")) };
            let error = ran.expect_err("9 of 8 requests");
            let want = BatchError::Capacity { what: "requests", count: 9, capacity: 8 };
            assert!(matches!(&error, Error::Batch(e) if *e == want), "{error}");
        }
    }
}

#[test]
fn a_device_batch_uses_the_bucket_of_its_array_lengths() {
    let engine = Engine::cpu();
    let full = attention(&engine, "full");
    let capacity = BatchCapacity::decode(4, 2000).in_pages(PAGE, PAGES);
    let mut buckets = GraphBuckets::new(&engine, &[&[&full]], &capacity, &GraphBuckets::sizes(4)).expect("planned");
    let (stream, mut memory) = (engine.stream().expect("a token"), Memory::new(&engine, 4));
    let lens = [40, 0, 700];
    let (table, kv_lens) = (pages(&lens), lens.map(|len| len as i32));
    let indices =
        DevicePages::Compressed { indptr: I32Slice::host(&table.indptr), indices: I32Slice::host(&table.indices) };
    let batch = DeviceBatch::paged(I32Slice::host(&[0, 1, 1, 2]), I32Slice::host(&kv_lens), indices);
    // SAFETY: on the CPU nothing is captured.
    let ran = unsafe {
        buckets.run_on_device(&stream, &batch, |step| {
            assert_eq!(step.capacity.requests, 4);
            memory.run(&step.plans[0], None, 0, 4, step.stream)
        })
    };
    ran.expect("ran");
    let written = &memory.written(&engine)[0];
    assert!(written[..2 * ROW].iter().all(|x| x.is_finite()) && written[2 * ROW..].iter().all(|x| x.is_nan()));
}

#[test]
fn sizes_of_buckets() {
    assert_eq!(GraphBuckets::sizes(64), [1, 2, 4, 8, 16, 32, 64]);
    assert_eq!(GraphBuckets::sizes(5), [1, 2, 4, 5]);
    assert!(GraphBuckets::sizes(0).is_empty());
    let engine = Engine::cpu();
    let capacity = BatchCapacity::decode(4, 2000);
    for sizes in [&[][..], &[0, 1], &[5]] {
        let error = GraphBuckets::new(&engine, &[], &capacity, sizes).expect_err("no such bucket");
        assert!(matches!(error, Error::Batch(BatchError::Capacity { .. })), "{error}");
    }
}

#[test]
fn a_graph_on_the_cpu_runs_the_work_again() {
    let stream = Engine::cpu().stream().expect("a token");
    let mut graph = Graph::capture(&stream, || panic!("nothing is recorded")).expect("nothing to do");
    let mut times = 0;
    for _ in 0..3 {
        // SAFETY: the work uses no memory.
        unsafe {
            graph.replay(&stream, || {
                times += 1;
                Ok(())
            })
        }
        .expect("worked");
    }
    assert_eq!(times, 3);
}
