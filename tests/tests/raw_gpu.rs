//! Engines that have their own memory and streams: one pool for all layers by a base address and strides, lengths and
//! pages that are changed in place, a workspace of the caller, runs that allocate nothing. On a GPU the memory and the
//! stream are of another version of cudarc than ours.

extern crate facade as attn;

use attn::{
    Error, Graph, Out, Stream,
    batch::{DeviceBatch, DevicePages, I32Slice},
    prelude::*,
    tensor::Element,
};
use attn_tests::gpu::gpu;

const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 64 };
const LAYERS: usize = 3;
const PAGES: usize = 12;
const PAGE: usize = 16;
/// Elements of keys, or of values, of a page of one layer.
const OF_PAGE: usize = PAGE * 2 * 64;
/// Distance of pages: a page has the keys and the values of all layers.
const PAGE_STRIDE: i64 = (LAYERS * 2 * OF_PAGE) as i64;
const POOL: usize = PAGES * LAYERS * 2 * OF_PAGE;
const POOL_SHAPE: [usize; 4] = [PAGES, PAGE, 2, 64];
const POOL_STRIDES: [i64; 4] = [PAGE_STRIDE, 128, 64, 1];
const QUERIES: [usize; 3] = [2, 8, 64];
/// A block table of two requests, whose lengths change.
const TABLE: [i32; 6] = [7, 2, 9, 11, 0, 5];
const STEPS: [[i32; 2]; 3] = [[20, 33], [48, 1], [16, 47]];

fn numbers(count: usize, seed: usize) -> Vec<bf16> {
    let value = |i: usize| (((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0) * 2.0;
    (0..count).map(|i| bf16::from_f32(value(i))).collect()
}

/// Where the keys (0) or the values (1) of a layer begin.
const fn part(layer: usize, part: usize) -> usize {
    (layer * 2 + part) * OF_PAGE
}

fn capacity() -> BatchCapacity {
    BatchCapacity::decode(2, 3 * 2 * PAGE as u32).in_pages(PAGE as u32, PAGES as u32)
}

fn first_batch<'a>(table: &'a BlockTable<'a>) -> Batch<'a> {
    Batch::block_table(&[0, 1, 2], table)
}

fn table(kv_lens: &[i32; 2]) -> BlockTable<'_> {
    BlockTable { pages: &TABLE, max_pages: 3, kv_lens, page_size: PAGE as u32, num_pages: PAGES as u32 }
}

/// The outputs of every step and layer on the CPU, over a copy of the layer without gaps.
fn expected(pool: &[bf16], q: &[bf16]) -> Result<Vec<Vec<f32>>, Error> {
    let engine = Engine::cpu();
    let attention = engine.attention(&Variant::parse("causal")?, HEADS, Dtypes::bf16())?;
    let mut all = Vec::new();
    for lens in &STEPS {
        for layer in 0..LAYERS {
            let [k, v] = [0, 1].map(|of| {
                let pages = (0..PAGES).map(|page| page * PAGE_STRIDE as usize + part(layer, of));
                pages.flat_map(|at| pool[at..at + OF_PAGE].to_vec()).collect::<Vec<bf16>>()
            });
            let plan = attention.plan(&first_batch(&table(lens)), &mut engine.workspace())?;
            let kv = Kv::paged(TensorRef::host(&k, &POOL_SHAPE)?, TensorRef::host(&v, &POOL_SHAPE)?);
            let mut o = vec![bf16::ZERO; 2 * 8 * 64];
            let out = Out::new(TensorMut::host(&mut o, &QUERIES)?);
            plan.run(&engine.stream()?, TensorRef::host(q, &QUERIES)?, kv, out)?;
            all.push(o.iter().map(|x| x.to_f32()).collect());
        }
    }
    Ok(all)
}

#[test]
fn one_pool_for_all_layers_on_the_cpu() -> Result<(), Error> {
    let (pool, q) = (numbers(POOL, 1), numbers(2 * 8 * 64, 2));
    let want = expected(&pool, &q)?;
    let engine = Engine::cpu();
    let attention = engine.attention(&Variant::parse("causal")?, HEADS, Dtypes::bf16())?;
    let (stream, mut workspace) = (engine.stream()?, engine.workspace());
    let options = PlanOptions { capacity: Some(capacity()), ..Default::default() };
    let mut plan = attention.plan_with(&first_batch(&table(&[1, 1])), &mut workspace, options)?;
    let mut got = Vec::new();
    for lens in &STEPS {
        let pages = DevicePages::Padded { indices: I32Slice::host(&TABLE), max_pages: 3 };
        plan.update_on_device(&stream, &DeviceBatch::paged(I32Slice::host(&[0, 1, 2]), I32Slice::host(lens), pages))?;
        for layer in 0..LAYERS {
            let of = |of| TensorRef::host(&pool[part(layer, of)..], &POOL_SHAPE)?.with_strides(&POOL_STRIDES);
            let mut o = vec![bf16::ZERO; 2 * 8 * 64];
            let out = Out::new(TensorMut::host(&mut o, &QUERIES)?);
            plan.run(&stream, TensorRef::host(&q, &QUERIES)?, Kv::paged(of(0)?, of(1)?), out)?;
            got.push(o.iter().map(|x| x.to_f32()).collect::<Vec<f32>>());
        }
    }
    assert_eq!(got, want);
    Ok(())
}

/// Addresses of an engine.
#[derive(Clone, Copy)]
struct Addresses {
    q: u64,
    pool: u64,
    o: u64,
    qo_indptr: u64,
    kv_lens: u64,
    table: u64,
}

impl Addresses {
    /// The batch that is at the addresses.
    ///
    /// # Safety
    ///
    /// They are of arrays of these lengths, which outlive all that is launched.
    unsafe fn batch(&self) -> DeviceBatch<'static> {
        // SAFETY: the caller guarantees it.
        unsafe {
            let pages = DevicePages::Padded { indices: I32Slice::device(self.table, 6), max_pages: 3 };
            DeviceBatch::paged(I32Slice::device(self.qo_indptr, 3), I32Slice::device(self.kv_lens, 2), pages)
        }
    }

    /// A layer of the step that was planned last, whose output follows that of the layer before.
    ///
    /// # Safety
    ///
    /// As [`Addresses::batch`].
    unsafe fn run_raw(&self, plan: &Plan, stream: &Stream, layer: usize) -> Result<(), Error> {
        let size = size_of::<bf16>() as u64;
        let o = self.o + size * (layer * 2 * 8 * 64) as u64;
        let strides = [512, 64, 1];
        // SAFETY: the caller guarantees it.
        unsafe {
            let of = |of| self.pool + size * part(layer, of) as u64;
            let k = TensorRef::device(of(0), bf16::DTYPE, &POOL_SHAPE, &POOL_STRIDES)?;
            let v = TensorRef::device(of(1), bf16::DTYPE, &POOL_SHAPE, &POOL_STRIDES)?;
            let out = Out::new(TensorMut::device(o, bf16::DTYPE, &QUERIES, &strides)?);
            plan.run(stream, TensorRef::device(self.q, bf16::DTYPE, &QUERIES, &strides)?, Kv::paged(k, v), out)
        }
    }
}

/// Memory and stream of cudarc 0.17, attention of ours, which has cudarc 0.19: both share the primary context.
#[test]
fn memory_and_stream_of_another_cudarc() {
    use cudarc_0_17::driver::{CudaContext, DevicePtr, DevicePtrMut, result::mem_get_info};

    let Some(engine) = gpu() else { return };
    let (pool, q) = (numbers(POOL, 1), numbers(2 * 8 * 64, 2));
    let want = expected(&pool, &q).expect("the CPU");
    let context = CudaContext::new(0).expect("a GPU");
    let theirs = context.new_stream().expect("a stream");
    let words = |of: &[bf16]| of.iter().map(|x| x.to_bits()).collect::<Vec<u16>>();
    let pool = theirs.memcpy_stod(&words(&pool)).expect("memory");
    let q = theirs.memcpy_stod(&words(&q)).expect("memory");
    let mut o = theirs.alloc_zeros::<u16>(LAYERS * 2 * 8 * 64).expect("memory");
    let qo_indptr = theirs.memcpy_stod(&[0i32, 1, 2]).expect("memory");
    let mut kv_lens = theirs.memcpy_stod(&[1i32, 1]).expect("memory");
    let pages = theirs.memcpy_stod(&TABLE).expect("memory");
    let at = Addresses {
        q: q.device_ptr(&theirs).0,
        pool: pool.device_ptr(&theirs).0,
        o: o.device_ptr_mut(&theirs).0,
        qo_indptr: qo_indptr.device_ptr(&theirs).0,
        kv_lens: kv_lens.device_ptr(&theirs).0,
        table: pages.device_ptr(&theirs).0,
    };

    let attention = engine.attention(&Variant::parse("causal").expect("stock"), HEADS, Dtypes::bf16()).expect("sound");
    // SAFETY: the stream is of the primary context, and is dropped last.
    let stream = unsafe { Stream::from_raw(&engine, theirs.cu_stream().cast()) }.expect("a stream");
    let options = PlanOptions { capacity: Some(capacity()), stream: Some(&stream), ..Default::default() };
    let lens = table(&[1, 1]);
    let bytes = attention.workspace_size(&first_batch(&lens), options).expect("sound");
    let memory = theirs.alloc_zeros::<u8>(bytes + 256).expect("memory");
    let aligned = memory.device_ptr(&theirs).0.next_multiple_of(256);
    // SAFETY: the memory has so many bytes, and is dropped after the plan.
    let mut workspace = unsafe { Workspace::from_raw(&engine, aligned, bytes) }.expect("aligned");
    let mut plan = attention.plan_with(&first_batch(&lens), &mut workspace, options).expect("sound");
    plan.prepare_device_updates().expect("a kernel");

    // a step is captured once; a capture allocates nothing and waits for nothing
    let mut step = Graph::capture(&stream, || {
        // SAFETY: the arrays live until the end of the test.
        unsafe {
            plan.update_on_device(&stream, &at.batch())?;
            (0..LAYERS).try_for_each(|layer| at.run_raw(&plan, &stream, layer))
        }
    })
    .expect("captured");
    for (number, lens) in STEPS.iter().enumerate() {
        theirs.memcpy_htod(lens, &mut kv_lens).expect("in the order of the stream");
        // SAFETY: as above.
        unsafe { step.replay(&stream, || Ok(())) }.expect("replayed");
        let got: Vec<f32> =
            theirs.memcpy_dtov(&o).expect("memory").into_iter().map(|x| bf16::from_bits(x).to_f32()).collect();
        let want = want[number * LAYERS..][..LAYERS].concat();
        let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(worst < 2e-2, "step {number}: {worst}");
    }
    plan.device_status(&stream).expect("sound");
    // SAFETY: as above.
    let run = || (0..LAYERS).try_for_each(|layer| unsafe { at.run_raw(&plan, &stream, layer) }).expect("launched");
    run();
    stream.synchronize().expect("it runs");
    let free = mem_get_info().expect("a context").0;
    (0..100).for_each(|_| run());
    stream.synchronize().expect("it runs");
    assert_eq!(mem_get_info().expect("a context").0, free, "a run allocates");
    drop((step, plan, workspace, stream));
}
