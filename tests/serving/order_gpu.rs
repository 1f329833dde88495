//! Safe calls on several streams, in several threads and under captures: results are those of one stream, and memory
//! lives as long as the device uses it. Skipped without a GPU.

use std::{sync::RwLockReadGuard, thread, time::Duration};

use attn::{DeviceBuffer, Error, Graph, Out, Plan, Stream, Workspace, cuda, ops, prelude::*};
use attn_needs::{Need, needed};
use attn_tests::synthetic::values;

use crate::captures;

const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 128 };
/// Requests; each has one query.
const REQUESTS: usize = 4;
/// Keys of a request: enough for several splits, which share partial states and counters.
const KEYS: usize = 8192;
const ROWS: [usize; 3] = [REQUESTS, 8, 128];
/// Runs that keep a stream busy while the host goes on.
const BUSY: usize = 200;

struct Gpu {
    engine: Engine,
    attention: Attention,
    k: DeviceBuffer,
    v: DeviceBuffer,
    /// Of the first GPU of a test; dropped after all that is on it.
    _beside: Option<RwLockReadGuard<'static, ()>>,
}

fn bf16s(count: usize, seed: u32) -> Vec<bf16> {
    values(count, seed).into_iter().map(bf16::from_f32).collect()
}

fn queries(seed: u32) -> Vec<bf16> {
    bf16s(ROWS.iter().product(), seed)
}

impl Gpu {
    fn find() -> Option<Self> {
        Self::of(0)
    }

    fn of(ordinal: u32) -> Option<Self> {
        let need = if ordinal == 0 { Need::Gpu } else { Need::Gpus };
        let beside = (ordinal == 0).then(captures::beside);
        let engine = needed(need, Engine::cuda(ordinal))?;
        attn::registry::register(attn::stock::variants()).expect("no two share a name");
        let variant = Variant::parse("causal").expect("stock");
        let attention = engine.attention(&variant, HEADS, Dtypes::bf16()).expect("bound");
        let kv = |seed| engine.upload(&bf16s(REQUESTS * KEYS * 2 * 128, seed)).expect("memory");
        let (k, v) = (kv(2), kv(3));
        Some(Gpu { engine, attention, k, v, _beside: beside })
    }

    fn plan(&self, workspace: &mut Workspace) -> Plan {
        self.attention.plan(&batch(), workspace).expect("planned")
    }

    fn stream(&self) -> Stream {
        self.engine.stream().expect("a stream")
    }

    fn upload(&self, values: &[bf16]) -> DeviceBuffer {
        self.engine.upload(values).expect("memory")
    }

    fn output(&self) -> DeviceBuffer {
        self.engine.alloc(Dtype::Bf16, ROWS.iter().product()).expect("memory")
    }

    fn run(&self, plan: &Plan, stream: &Stream, q: &DeviceBuffer, o: &mut DeviceBuffer) -> Result<(), Error> {
        let keys = [REQUESTS * KEYS, 2, 128];
        let kv = Kv::ragged(self.k.tensor(&keys)?, self.v.tensor(&keys)?);
        plan.run(stream, q.tensor(&ROWS)?, kv, Out::new(o.tensor_mut(&ROWS)?))
    }

    fn read(&self, o: &DeviceBuffer) -> Vec<bf16> {
        self.engine.download(o).expect("it ran")
    }

    /// The output for these queries, alone on the device.
    fn alone(&self, q: &[bf16]) -> Vec<bf16> {
        let mut workspace = self.engine.workspace();
        let (plan, mut o) = (self.plan(&mut workspace), self.output());
        self.run(&plan, &self.stream(), &self.upload(q), &mut o).expect("runs");
        self.read(&o)
    }

    /// Keeps a stream busy with runs of a plan of its own, from `q` into `o`.
    fn keep_busy(&self, plan: &Plan, stream: &Stream, q: &DeviceBuffer, o: &mut DeviceBuffer) {
        (0..BUSY).for_each(|_| self.run(plan, stream, q, o).expect("runs"));
    }
}

fn batch() -> Batch<'static> {
    const QO: [i32; REQUESTS + 1] = [0, 1, 2, 3, 4];
    const KV: [i32; REQUESTS + 1] = [0, 8192, 16384, 24576, 32768];
    Batch::ragged(&QO, &KV)
}

#[test]
fn one_plan_runs_on_two_streams_and_in_two_threads() {
    let Some(gpu) = Gpu::find() else { return };
    let mut workspace = gpu.engine.workspace();
    let plan = gpu.plan(&mut workspace);
    let want = [1, 5].map(|seed| gpu.alone(&queries(seed)));
    let q = [1, 5].map(|seed| gpu.upload(&queries(seed)));
    let (streams, mut o) = ([gpu.stream(), gpu.stream()], [gpu.output(), gpu.output()]);
    for round in 0..20 {
        for _ in 0..BUSY {
            for i in 0..2 {
                gpu.run(&plan, &streams[i], &q[i], &mut o[i]).expect("ordered");
            }
        }
        for i in 0..2 {
            assert!(gpu.read(&o[i]) == want[i], "round {round}, stream {i}");
        }
    }
    thread::scope(|scope| {
        for ((stream, q), o) in streams.iter().zip(&q).zip(&mut o) {
            let (gpu, plan) = (&gpu, &plan);
            scope.spawn(move || (0..10 * BUSY).for_each(|_| gpu.run(plan, stream, q, o).expect("ordered")));
        }
    });
    for i in 0..2 {
        assert!(gpu.read(&o[i]) == want[i], "thread {i}");
    }
}

#[test]
fn a_write_waits_for_runs_of_another_stream() {
    let Some(gpu) = Gpu::find() else { return };
    let (old, new) = (queries(1), queries(5));
    let want = [gpu.alone(&old), gpu.alone(&new)];
    let mut workspaces = [gpu.engine.workspace(), gpu.engine.workspace()];
    let plan = gpu.plan(&mut workspaces[0]);
    let other_plan = gpu.plan(&mut workspaces[1]);
    let (first, second) = (gpu.stream(), gpu.stream());
    let (mut q, mut before, mut after) = (gpu.upload(&old), gpu.output(), gpu.output());
    for round in 0..10 {
        q.write(&second, 0, &old).expect("fits");
        gpu.keep_busy(&plan, &first, &q, &mut before);
        q.write(&second, 0, &new).expect("fits"); // while the runs above still read it
        gpu.run(&other_plan, &second, &q, &mut after).expect("runs");
        assert!(gpu.read(&before) == want[0], "round {round}: runs before the write");
        assert!(gpu.read(&after) == want[1], "round {round}: a run after the write");
    }
    // an output that a run of another stream then reads
    let (source, mut q) = (gpu.upload(&new), gpu.upload(&old));
    gpu.keep_busy(&plan, &first, &source, &mut q);
    gpu.run(&other_plan, &second, &q, &mut after).expect("runs");
    let outputs = gpu.read(&q);
    assert!(outputs == want[1] && gpu.read(&after) == gpu.alone(&outputs), "a read of what another stream wrote");
}

#[test]
fn streams_that_are_gone_still_count() {
    let Some(gpu) = Gpu::find() else { return };
    let mut workspace = gpu.engine.workspace();
    let plan = gpu.plan(&mut workspace);
    let q = [1, 5].map(|seed| gpu.upload(&queries(seed)));
    let want = [1, 5].map(|seed| gpu.alone(&queries(seed)));
    let mut o = [gpu.output(), gpu.output()];
    for round in 0..50 {
        for i in 0..2 {
            // the driver reuses handles of streams that are gone
            let stream = gpu.stream();
            gpu.keep_busy(&plan, &stream, &q[i], &mut o[i]);
        }
        for i in 0..2 {
            assert!(gpu.read(&o[i]) == want[i], "round {round}, stream {i}");
        }
    }
}

#[test]
fn borrowed_streams_are_told_apart_by_their_numbers() {
    let Some(gpu) = Gpu::find() else { return };
    let owner = gpu.stream();
    let mut workspace = gpu.engine.workspace();
    let (plan, q, mut o) = (gpu.plan(&mut workspace), gpu.upload(&queries(1)), gpu.output());
    let want = gpu.alone(&queries(1));
    for _ in 0..20 {
        // SAFETY: the owner lives longer, and nobody captures.
        let borrowed = unsafe { Stream::from_raw(&gpu.engine, owner.as_raw().expect("CUDA")) }.expect("a stream");
        gpu.keep_busy(&plan, &borrowed, &q, &mut o);
        drop(borrowed);
        gpu.run(&plan, &gpu.stream(), &q, &mut o).expect("ordered");
        assert!(gpu.read(&o) == want);
    }
    // SAFETY: the handle is refused.
    let error = unsafe { Stream::from_raw(&gpu.engine, 2 as *mut _) }.expect_err("another stream on each thread");
    let Error::Cuda(error) = error else { panic!("{error}") };
    assert!(matches!(*error, cuda::CudaError::PerThreadStream), "{error}");
    // SAFETY: the default stream is always there.
    let default = unsafe { Stream::from_raw(&gpu.engine, std::ptr::null_mut()) }.expect("the default stream");
    gpu.run(&plan, &default, &q, &mut o).expect("ordered");
    assert!(gpu.read(&o) == want);
}

#[test]
fn pinned_memory_may_be_changed_on_return() {
    let Some(gpu) = Gpu::find() else { return };
    let (old, other) = (queries(1), queries(5));
    let mut workspace = gpu.engine.workspace();
    let plan = gpu.plan(&mut workspace);
    let (stream, busy, mut o) = (gpu.stream(), gpu.upload(&other), gpu.output());
    let pinned = ops::HostBuffer::new(&gpu.engine, Dtype::Bf16, old.len()).expect("memory");
    let address = pinned.tensor(&[old.len()]).expect("fits").device_ptr().expect("CUDA");
    // SAFETY: the buffer is that long and aligned to pages, and nothing else refers to it while this lives.
    let source = unsafe { std::slice::from_raw_parts_mut(address as *mut bf16, old.len()) };
    let mut q = gpu.upload(&other);
    source.copy_from_slice(&old);
    gpu.keep_busy(&plan, &stream, &busy, &mut o);
    q.write(&stream, 0, source).expect("fits");
    source.fill(bf16::NAN); // at once
    assert!(gpu.read(&q) == old);
    source.copy_from_slice(&other);
    // SAFETY: the source is changed after the stream was waited for.
    unsafe { q.write_async(&stream, 0, source) }.expect("fits");
    stream.synchronize().expect("copied");
    source.fill(bf16::NAN);
    assert!(gpu.read(&q) == other);
}

#[test]
fn replays_are_ordered_with_runs_of_other_streams() {
    let Some(gpu) = Gpu::find() else { return };
    let capacity = BatchCapacity::decode(REQUESTS as u32, (REQUESTS * KEYS) as u32);
    let mut workspace = gpu.engine.workspace();
    let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
    let mut plan = gpu.attention.plan_with(&batch(), &mut workspace, options).expect("planned");
    let (first, second, third) = (gpu.stream(), gpu.stream(), gpu.stream());
    let q = [1, 5].map(|seed| gpu.upload(&queries(seed)));
    let mut o = [gpu.output(), gpu.output()];
    gpu.run(&plan, &third, &q[0], &mut o[0]).expect("kernels are loaded");
    let want = [1, 5].map(|seed| {
        let q = gpu.upload(&queries(seed));
        let mut o = gpu.output();
        gpu.run(&plan, &third, &q, &mut o).expect("runs");
        gpu.read(&o)
    });
    gpu.keep_busy(&plan, &third, &q[1], &mut o[1]); // the capture neither waits for it nor takes it in
    let mut graph = Graph::capture(&first, || gpu.run(&plan, &first, &q[0], &mut o[0])).expect("captured");
    for round in 0..20 {
        for _ in 0..BUSY {
            // SAFETY: memory, plan and workspace live, and this thread alone uses them.
            unsafe { graph.replay(&first, || Ok(())) }.expect("launched");
            gpu.run(&plan, &second, &q[1], &mut o[1]).expect("ordered");
        }
        plan.update(&third, &batch()).expect("the same batch, on a third stream");
        for i in 0..2 {
            assert!(gpu.read(&o[i]) == want[i], "round {round}, output {i}");
        }
    }
    // a stream that is captured has earlier work, for which another one waits
    gpu.keep_busy(&plan, &first, &q[0], &mut o[0]);
    let mut other = gpu.output();
    Graph::capture(&first, || gpu.run(&plan, &second, &q[1], &mut other)).expect("launched beside the capture");
    assert!(gpu.read(&other) == want[1]);
}

#[test]
fn what_is_dropped_under_a_capture_is_freed_after_it() {
    let Some(gpu) = Gpu::find() else { return };
    let mut workspace = gpu.engine.workspace();
    let plan = gpu.plan(&mut workspace);
    let (stream, q, mut o) = (gpu.stream(), gpu.upload(&queries(1)), gpu.output());
    gpu.run(&plan, &stream, &q, &mut o).expect("kernels are loaded");
    let want = gpu.read(&o);

    let half = |bytes: usize| gpu.engine.alloc(Dtype::E4m3, bytes / 5 * 3);
    let large = half(gpu.engine.device().expect("CUDA").memory()).expect("three fifths of the memory");
    let pinned = ops::HostBuffer::new(&gpu.engine, Dtype::F32, 1 << 20).expect("memory");
    let soft = Variant::parse("causal + soft_cap(cap=30)").expect("stock");
    let attention = gpu.engine.attention(&soft, HEADS, Dtypes::bf16()).expect("bound");
    let mut other_workspace = gpu.engine.workspace();
    let other_plan = attention.plan(&batch(), &mut other_workspace).expect("planned");
    let (other_stream, mut other_o) = (gpu.stream(), gpu.output());
    gpu.run(&other_plan, &other_stream, &q, &mut other_o).expect("runs");
    let other_want = gpu.read(&other_o);
    gpu.keep_busy(&other_plan, &other_stream, &q, &mut other_o); // still in flight when they are dropped
    let mut graph = Graph::capture(&stream, || {
        drop((large, pinned, other_plan, other_workspace, attention, other_stream));
        gpu.run(&plan, &stream, &q, &mut o)
    })
    .expect("drops do not disturb the capture");
    // captures of the tests beside this one put it off, each for a moment
    let memory = gpu.engine.device().expect("CUDA").memory();
    let again = (0..500).find_map(|_| half(memory).inspect_err(|_| thread::sleep(Duration::from_millis(10))).ok());
    drop(again.expect("it is free again"));
    assert!(gpu.read(&other_o) == other_want, "what was dropped was freed while runs used it");
    // SAFETY: memory, plan and workspace live.
    unsafe { graph.replay(&stream, || Ok(())) }.expect("launched");
    assert!(gpu.read(&o) == want);
}

#[test]
fn an_engine_may_be_dropped_under_a_capture() {
    let Some(gpu) = Gpu::find() else { return };
    let mut workspace = gpu.engine.workspace();
    let plan = gpu.plan(&mut workspace);
    let (stream, q, mut o) = (gpu.stream(), gpu.upload(&queries(1)), gpu.output());
    gpu.run(&plan, &stream, &q, &mut o).expect("kernels are loaded");
    let want = gpu.read(&o);
    for _ in 0..3 {
        let second = Engine::cuda(0).expect("the same device");
        second.prepare(&[attn::Workload::Op { op: ops::Op::Copy }]).expect("loaded"); // unloaded with the engine
        let buffer = second.upload(&queries(5)).expect("memory");
        let mut graph = Graph::capture(&stream, || {
            drop((buffer, second));
            gpu.run(&plan, &stream, &q, &mut o)
        })
        .expect("drops do not disturb the capture");
        // SAFETY: memory, plan and workspace live.
        unsafe { graph.replay(&stream, || Ok(())) }.expect("launched");
        assert!(gpu.read(&o) == want);
    }
}

#[test]
fn an_output_that_waits_for_a_capture_stops_no_other() {
    let Some(gpu) = Gpu::find() else { return };
    let mut workspace = gpu.engine.workspace();
    let plan = gpu.plan(&mut workspace);
    let (stream, q, mut o) = (gpu.stream(), gpu.upload(&queries(1)), gpu.output());
    gpu.run(&plan, &stream, &q, &mut o).expect("kernels are loaded");
    let output = || attn::stock::MaxLogit { max: attn::lang::OutTensor1::filled(0.0, [8]).expect("heads") };
    let bind = |output: &attn::stock::MaxLogit| gpu.engine.attention(&output.clone().into(), HEADS, Dtypes::bf16());
    let (known, new) = (output(), output());
    let _keeps_its_buffer = bind(&known).expect("uploaded");
    thread::scope(|scope| {
        let mut other = None;
        Graph::capture(&stream, || {
            // its upload waits for this capture
            other = Some(scope.spawn(|| bind(&new).map(drop)));
            thread::sleep(std::time::Duration::from_millis(200));
            bind(&known).expect("there is nothing to upload");
            gpu.run(&plan, &stream, &q, &mut o)
        })
        .expect("captured");
        other.expect("begun").join().expect("no panic").expect("bound after the capture");
    });
}

#[test]
fn memory_of_another_device_is_refused() {
    let (Some(gpu), Some(other)) = (Gpu::find(), Gpu::of(1)) else { return };
    let mut workspace = gpu.engine.workspace();
    let (plan, stream, mut o) = (gpu.plan(&mut workspace), gpu.stream(), gpu.output());
    let error = gpu.run(&plan, &stream, &other.upload(&queries(1)), &mut o).expect_err("q is elsewhere");
    let text = error.to_string();
    assert!(text.contains("`q`") && text.contains("device 1") && text.contains("device 0"), "{text}");
    let error = gpu.run(&plan, &stream, &gpu.upload(&queries(1)), &mut other.output()).expect_err("o is elsewhere");
    assert!(error.to_string().contains("`o`"), "{error}");
    let bools = ops::DeviceArray::upload(&other.engine, &[1u8; 8]).expect("memory");
    let mut bits = ops::DeviceArray::zeroed(&gpu.engine, 1).expect("memory");
    let error = ops::packbits(&stream, &bools.array(), ops::BitOrder::Little, &mut bits.array_mut());
    assert!(error.expect_err("bools are elsewhere").to_string().contains("`bools`"));
}

#[test]
fn objects_of_one_stream_are_one_stream() {
    let Some(gpu) = Gpu::find() else { return };
    let mut workspace = gpu.engine.workspace();
    let plan = gpu.plan(&mut workspace);
    let (owner, second, third) = (gpu.stream(), gpu.stream(), gpu.stream());
    // SAFETY: the owner lives longer, and no other library captures.
    let borrow = || unsafe { Stream::from_raw(&gpu.engine, owner.as_raw().expect("CUDA")) }.expect("a stream");
    let (q, want) = ([1, 5].map(|seed| gpu.upload(&queries(seed))), [1, 5].map(|seed| gpu.alone(&queries(seed))));
    let mut o = [gpu.output(), gpu.output()];
    gpu.run(&plan, &third, &q[0], &mut o[0]).expect("kernels are loaded");

    // a run through another object of the captured stream belongs to the graph
    let borrowed = borrow();
    let mut graph = Graph::capture(&owner, || gpu.run(&plan, &borrowed, &q[0], &mut o[0])).expect("captured");
    for round in 0..20 {
        for _ in 0..BUSY {
            // SAFETY: memory, plan and workspace live, and this thread alone uses them.
            unsafe { graph.replay(&second, || Ok(())) }.expect("launched");
            gpu.run(&plan, &third, &q[1], &mut o[1]).expect("ordered");
        }
        for i in 0..2 {
            assert!(gpu.read(&o[i]) == want[i], "round {round}, output {i}");
        }
    }
    // an object that is dropped under a capture of its stream leaves the others, and the work before
    gpu.keep_busy(&plan, &borrowed, &q[0], &mut o[0]);
    Graph::capture(&owner, || {
        drop(borrowed);
        Ok::<(), Error>(())
    })
    .expect("captured");
    gpu.run(&plan, &third, &q[1], &mut o[1]).expect("ordered");
    assert!(gpu.read(&o[0]) == want[0] && gpu.read(&o[1]) == want[1]);
}

#[test]
fn a_write_waits_for_many_readers() {
    let Some(gpu) = Gpu::find() else { return };
    let (old, new) = (queries(1), queries(5));
    let want = gpu.alone(&old);
    let mut workspaces: Vec<_> = (0..7).map(|_| gpu.engine.workspace()).collect();
    let plans: Vec<_> = workspaces.iter_mut().map(|workspace| gpu.plan(workspace)).collect();
    let (streams, mut o): (Vec<_>, Vec<_>) = plans.iter().map(|_| (gpu.stream(), gpu.output())).unzip();
    let (mut q, last) = (gpu.upload(&old), gpu.stream());
    for ((plan, stream), o) in plans.iter().zip(&streams).zip(&mut o) {
        gpu.keep_busy(plan, stream, &q, o);
    }
    q.write(&last, 0, &new).expect("fits"); // while the runs above still read it
    assert!(o.iter().all(|o| gpu.read(o) == want));
    assert!(gpu.read(&q) == new);
}

#[test]
fn a_capture_begins_and_ends_between_runs_of_another_thread() {
    let Some(gpu) = Gpu::find() else { return };
    let mut workspace = gpu.engine.workspace();
    let plan = gpu.plan(&mut workspace);
    let (shared, other, q) = (gpu.stream(), gpu.stream(), gpu.upload(&queries(1)));
    let (mut taken, mut o, want) = (gpu.output(), gpu.output(), gpu.alone(&queries(1)));
    gpu.run(&plan, &other, &q, &mut o).expect("kernels are loaded");
    thread::scope(|scope| {
        // its runs are launched, or become a part of the capture
        scope.spawn(|| (0..10 * BUSY).for_each(|_| gpu.run(&plan, &shared, &q, &mut taken).expect("submitted")));
        scope.spawn(|| (0..10 * BUSY).for_each(|_| gpu.run(&plan, &other, &q, &mut o).expect("ordered")));
        for _ in 0..BUSY {
            Graph::capture(&shared, || Ok::<(), Error>(())).expect("captured");
        }
    });
    assert!(gpu.read(&o) == want);
    gpu.run(&plan, &shared, &q, &mut taken).expect("ordered");
    assert!(gpu.read(&taken) == want);
}
