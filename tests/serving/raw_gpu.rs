//! Engines that have their own memory and streams: one pool for all layers by a base address and strides, lengths and
//! pages that are changed in place, a workspace of the caller, runs that allocate nothing. On a GPU the memory and the
//! stream are of another version of cudarc than ours.

use std::sync::Arc;

use attn::batch::{DeviceBatch, DevicePages, I32Slice};
use attn::prelude::*;
use attn::{Error, Graph, Out, Stream};
use attn_core::tensor::Element;
use attn_tests::gpu::gpu;
use cudarc_0_17::driver::result::mem_get_info;
use cudarc_0_17::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc_0_17::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DriverError};

use crate::captures;

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
    /// The addresses are of arrays and pools of this step's lengths, which outlive all that is launched.
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

/// An engine's memory and stream, of cudarc 0.17; attention of ours has cudarc 0.19. Both share the primary context.
struct Theirs {
    stream: Arc<CudaStream>,
    pool: CudaSlice<u16>,
    q: CudaSlice<u16>,
    o: CudaSlice<u16>,
    qo_indptr: CudaSlice<i32>,
    kv_lens: CudaSlice<i32>,
    pages: CudaSlice<i32>,
}

impl Theirs {
    fn new(pool: &[bf16], q: &[bf16]) -> Result<Self, DriverError> {
        let stream = CudaContext::new(0)?.new_stream()?;
        let words = |of: &[bf16]| of.iter().map(|x| x.to_bits()).collect::<Vec<u16>>();
        let (pool, q) = (stream.memcpy_stod(&words(pool))?, stream.memcpy_stod(&words(q))?);
        let o = stream.alloc_zeros::<u16>(LAYERS * 2 * 8 * 64)?;
        let (qo_indptr, kv_lens) = (stream.memcpy_stod(&[0i32, 1, 2])?, stream.memcpy_stod(&STEPS[0])?);
        let pages = stream.memcpy_stod(&TABLE)?;
        Ok(Theirs { stream, pool, q, o, qo_indptr, kv_lens, pages })
    }

    fn addresses(&mut self) -> Addresses {
        let stream = &self.stream;
        Addresses {
            q: self.q.device_ptr(stream).0,
            pool: self.pool.device_ptr(stream).0,
            o: self.o.device_ptr_mut(stream).0,
            qo_indptr: self.qo_indptr.device_ptr(stream).0,
            kv_lens: self.kv_lens.device_ptr(stream).0,
            table: self.pages.device_ptr(stream).0,
        }
    }

    /// Compares the outputs of all layers, once the stream has written them.
    fn check(&self, step: usize, want: &[Vec<f32>]) {
        let o = self.stream.memcpy_dtov(&self.o).expect("memory");
        let got = o.into_iter().map(|x| bf16::from_bits(x).to_f32());
        let want = want[step * LAYERS..][..LAYERS].concat();
        // not by `f32::max`, which passes over NaN
        for (i, (got, want)) in got.zip(&want).enumerate() {
            assert!((got - want).abs() < 2e-2, "step {step}: output {i} is {got}, not {want}");
        }
    }
}

#[test]
fn memory_and_stream_of_another_cudarc() {
    let _alone = captures::alone();
    let Some(engine) = gpu() else { return };
    let (pool, q) = (numbers(POOL, 1), numbers(2 * 8 * 64, 2));
    let want = expected(&pool, &q).expect("the CPU");
    let mut theirs = Theirs::new(&pool, &q).expect("a GPU");
    let at = theirs.addresses();

    let attention = engine.attention(&Variant::parse("causal").expect("stock"), HEADS, Dtypes::bf16()).expect("sound");
    // SAFETY: the stream is of the primary context, and is dropped last.
    let stream = unsafe { Stream::from_raw(&engine, theirs.stream.cu_stream().cast()) }.expect("a stream");
    let options = PlanOptions { capacity: Some(capacity()), stream: Some(&stream), ..Default::default() };
    let lens = table(&[1, 1]);
    let bytes = attention.workspace_size(&first_batch(&lens), options).expect("sound");
    let memory = theirs.stream.alloc_zeros::<u8>(bytes + 256).expect("memory");
    let aligned = memory.device_ptr(&theirs.stream).0.next_multiple_of(256);
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
        theirs.stream.memcpy_htod(lens, &mut theirs.kv_lens).expect("in the order of the stream");
        // SAFETY: as above.
        unsafe { step.replay(&stream, || Ok(())) }.expect("replayed");
        theirs.check(number, &want);
    }
    plan.device_status(&stream).expect("sound");
    // SAFETY: as above.
    let run = || (0..LAYERS).try_for_each(|layer| unsafe { at.run_raw(&plan, &stream, layer) }).expect("launched");
    run();
    stream.synchronize().expect("it runs");
    // other programs on the card allocate now and then; runs that allocate would do so in each round
    let allocates_nothing = (0..20).any(|_| {
        let free = mem_get_info().expect("a context").0;
        (0..100).for_each(|_| run());
        stream.synchronize().expect("it runs");
        mem_get_info().expect("a context").0 == free
    });
    assert!(allocates_nothing, "a run allocates");
    drop((step, plan, workspace, stream));
}

/// Another library captures a stream that we have not seen before, in each mode; asking the driver for the number of
/// such a stream would invalidate the capture. Afterwards the same stream is used without a capture.
#[test]
fn a_capture_of_another_cudarc() {
    let _alone = captures::alone();
    let Some(engine) = gpu() else { return };
    let (pool, q) = (numbers(POOL, 1), numbers(2 * 8 * 64, 2));
    let want = expected(&pool, &q).expect("the CPU");
    let attention = engine.attention(&Variant::parse("causal").expect("stock"), HEADS, Dtypes::bf16()).expect("sound");
    let (mut workspace, own) = (engine.workspace(), engine.stream().expect("a stream"));
    let plan = attention.plan(&first_batch(&table(&STEPS[0])), &mut workspace).expect("sound");
    for mode in [
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
    ] {
        let mut theirs = Theirs::new(&pool, &q).expect("a GPU");
        let at = theirs.addresses();
        // SAFETY: the arrays live until the end of the loop, and the stream is borrowed for the call.
        let run = |layer| unsafe { at.run_raw(&plan, &own, layer) };
        (0..LAYERS).try_for_each(run).expect("loaded");
        own.synchronize().expect("it runs");
        theirs.stream.memset_zeros(&mut theirs.o).expect("memory");
        theirs.stream.synchronize().expect("it runs");

        theirs.stream.begin_capture(mode).expect("a capture");
        for layer in 0..LAYERS {
            // each layer borrows the stream anew, as calls of an engine do
            // SAFETY: as above; the stream is of the primary context and lives.
            let borrowed = unsafe { Stream::from_raw(&engine, theirs.stream.cu_stream().cast()) }.expect("captured");
            // SAFETY: as above.
            unsafe { at.run_raw(&plan, &borrowed, layer) }.expect("captured");
        }
        let captured =
            theirs.stream.end_capture(CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
        let graph = captured.expect("a valid capture").expect("a graph");
        for _ in 0..2 {
            theirs.stream.memset_zeros(&mut theirs.o).expect("memory");
            graph.launch().expect("launched");
            theirs.check(0, &want);
        }
        theirs.stream.memset_zeros(&mut theirs.o).expect("memory");
        // SAFETY: as above.
        let borrowed = unsafe { Stream::from_raw(&engine, theirs.stream.cu_stream().cast()) }.expect("a stream");
        // SAFETY: as above.
        (0..LAYERS).try_for_each(|layer| unsafe { at.run_raw(&plan, &borrowed, layer) }).expect("launched");
        theirs.check(0, &want);
        own.synchronize().expect("it runs");
        drop(borrowed);
    }
}
