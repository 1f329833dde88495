//! Planning on the device; skipped without a GPU. The planner kernel compiled for the host is tested in
//! tests/tests/device_plan.rs.
#![cfg(feature = "cuda")]
#![allow(missing_docs, clippy::print_stderr, clippy::print_stdout)] // a test

#[path = "support/stock.rs"]
mod stock;

use attn_core::{
    batch::{Batch, BatchCapacity, BatchError, DeviceBatch, DevicePages, I32Slice, PageTableBuf, indptr},
    dtype::{Dtype, Dtypes},
    spec::{AttentionOptions, Heads, KernelKind},
    tensor::{Kv, Out, TensorMut, TensorRef},
};
use attn_kernels::{
    compile::{Arch, Compiler},
    cuda::{Attention, CudaError, Device, DeviceBuffer, Event, Plan, Stream, Workspace},
    jit,
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::{KernelSource, PlannerSource},
};

const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 64 };
const PAGE: u32 = 16;
const PAGES: u32 = 64;
/// Capacity in requests.
const REQUESTS: usize = 1024;
/// The variants of the tests.
const VARIANTS: [&str; 7] = [
    "full",
    "causal",
    "causal + sliding_window(window=300)",
    "causal + sliding_window(window=70)",
    "causal + sliding_window(window=100)",
    "causal + sliding_window(window=128)",
    "causal + union(sliding_window(window=70), full)",
];
/// Capacity in keys.
const KEYS: u32 = 1024 * 4096;

/// A random number generator.
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let bits = (self.0 ^ self.0 >> 16).wrapping_mul(0x9e37_79b9);
        bits ^ bits >> 15
    }
    fn below(&mut self, end: u32) -> u32 {
        self.next() % end.max(1)
    }
}

/// Random bf16 values between -2 and 2.
fn values(count: usize, seed: u32) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bf16 = || {
        let x = (random.next() & 0xffff) as f32 / 16384.0 - 2.0;
        ((x.to_bits() >> 16) as u16).to_le_bytes()
    };
    (0..count).flat_map(|_| bf16()).collect()
}

/// A device with tensors on it, and arrays for a batch.
struct Gpu {
    device: Device,
    stream: Stream,
    q: DeviceBuffer,
    k: DeviceBuffer,
    v: DeviceBuffer,
    o: DeviceBuffer,
    qo_indptr: DeviceBuffer,
    kv_lens: DeviceBuffer,
    page_indptr: DeviceBuffer,
    page_indices: DeviceBuffer,
}

/// A batch in host memory.
struct BatchArrays {
    qo: Vec<i32>,
    kv: Vec<i32>,
    table: PageTableBuf,
}

impl BatchArrays {
    fn new(qo: &[u32], kv: &[u32], seed: u32) -> Self {
        let mut random = Random(seed);
        let table = PageTableBuf::from_lens(kv, PAGE, PAGES, || random.below(PAGES) as i32);
        BatchArrays { qo: indptr(qo).expect("short"), kv: kv.iter().map(|&len| len as i32).collect(), table }
    }

    /// Requests of one query each.
    fn decode(kv: &[u32]) -> Self {
        BatchArrays::new(&vec![1; kv.len()], kv, 3)
    }

    fn batch(&self) -> Batch<'_> {
        Batch::paged(&self.qo, &self.table.table())
    }
}

impl Gpu {
    fn find() -> Option<Self> {
        let device = match Device::new(0) {
            Ok(device) => device,
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                return None;
            }
        };
        let (q, kv) = (REQUESTS * 8 * 64, (PAGES * PAGE) as usize * 2 * 64);
        let upload = |count, seed| DeviceBuffer::upload(&device, &values(count, seed)).expect("memory");
        let ints = |count: usize| DeviceBuffer::new(&device, count * 4).expect("memory");
        let (q, k, v, o) = (upload(q, 1), upload(kv, 2), upload(kv, 3), upload(q, 4));
        let stream = Stream::new(&device).expect("a stream");
        let entries = (KEYS / PAGE) as usize + REQUESTS;
        Some(Gpu {
            qo_indptr: ints(REQUESTS + 1),
            kv_lens: ints(REQUESTS),
            page_indptr: ints(REQUESTS + 1),
            page_indices: ints(entries),
            device,
            stream,
            q,
            k,
            v,
            o,
        })
    }

    fn attention(&self, expr: &str) -> Attention {
        let variant = stock::variant(expr);
        let options = AttentionOptions { kernel: Some(KernelKind::Decode), ..AttentionOptions::default() };
        Attention::new(&self.device, &variant, HEADS, Dtypes::bf16(), options).expect("bound")
    }

    fn workspace(&self) -> Workspace {
        Workspace::new(&self.device).expect("empty")
    }

    /// Copies a batch to the device, in the order of the stream.
    fn put(&self, arrays: &BatchArrays) {
        let write = |buffer: &DeviceBuffer, values: &[i32]| {
            buffer.write(&self.stream, 0, bytemuck::cast_slice(values)).expect("room");
        };
        write(&self.qo_indptr, &arrays.qo);
        write(&self.kv_lens, &arrays.kv);
        write(&self.page_indptr, &arrays.table.indptr);
        write(&self.page_indices, &arrays.table.indices);
    }

    /// The batch on the device, of `requests` requests.
    fn batch(&self, requests: usize) -> DeviceBatch<'_> {
        // SAFETY: the buffers hold as many, and live until the device was waited for; `put` writes them in the stream's
        // order.
        let ints = |buffer: &DeviceBuffer, count| unsafe { I32Slice::device(buffer.ptr(), count) };
        DeviceBatch::paged(
            ints(&self.qo_indptr, requests + 1),
            ints(&self.kv_lens, requests),
            DevicePages::Compressed {
                indptr: ints(&self.page_indptr, requests + 1),
                indices: ints(&self.page_indices, self.page_indices.len() / 4),
            },
        )
    }

    fn run(&self, plan: &Plan) -> Result<(), CudaError> {
        let (rows, pool) = ([REQUESTS, 8, 64], [PAGES as usize, PAGE as usize, 2, 64]);
        let strides = [i64::from(PAGE) * 128, 128, 64, 1];
        // SAFETY: the buffers hold as many elements, and live until the stream was waited for; nothing else uses `o`.
        let (q, k, v, o) = unsafe {
            (
                TensorRef::device(self.q.ptr(), Dtype::Bf16, &rows, &[512, 64, 1])?,
                TensorRef::device(self.k.ptr(), Dtype::Bf16, &pool, &strides)?,
                TensorRef::device(self.v.ptr(), Dtype::Bf16, &pool, &strides)?,
                TensorMut::device(self.o.ptr(), Dtype::Bf16, &rows, &[512, 64, 1])?,
            )
        };
        plan.run(&self.stream, q, Kv::paged(k, v), Out::new(o), None, false)
    }

    /// The output of a run; bytes of 0xff where it writes nothing.
    fn written(&self, run: impl FnOnce()) -> Vec<u8> {
        self.o.fill(&self.stream, 0xff).expect("fills");
        run();
        self.stream.synchronize().expect("it ran");
        let mut bytes = vec![0; self.o.len()];
        self.o.download(0, &mut bytes).expect("copied");
        bytes
    }

    /// The median time of a launch, in microseconds.
    fn median(&self, mut launch: impl FnMut()) -> f32 {
        let event = || Event::new(&self.device).expect("an event");
        let mut times: Vec<f32> = (0..60)
            .map(|_| {
                let (start, end) = (event(), event());
                start.record(&self.stream).expect("recorded");
                launch();
                end.record(&self.stream).expect("recorded");
                end.synchronize().expect("done");
                end.ms_since(&start).expect("recorded") * 1e3
            })
            .collect();
        times.sort_by(f32::total_cmp);
        times[times.len() / 2]
    }
}

/// The bytes of a plan's work list that the host writes too.
fn lists(plan: &Plan, arrays: &BatchArrays) -> Vec<u8> {
    let (offsets, mut bytes) = plan.read_lists().expect("current");
    bytes.truncate((offsets.page_indices.start + arrays.table.indices.len() * 4).next_multiple_of(16));
    bytes
}

/// Query and key lengths of each request.
fn random_lens(random: &mut Random, queries: u32) -> (Vec<u32>, Vec<u32>) {
    let most = [5, 70, 300, REQUESTS as u32][random.below(4) as usize];
    let (requests, keys) = (random.below(most + 1), [1, 100, 1000, 4096][random.below(4) as usize]);
    let equal = random.below(4) == 0;
    let lens = (0..requests).map(|_| {
        let (few, len) = (1 + random.below(queries), random.below(keys + 1));
        (if random.below(9) == 0 { 0 } else { few }, if equal { keys } else { len })
    });
    lens.unzip()
}

/// Compiles the kernels of the tests below, also without a GPU. With `ATTN_CACHE_DIR` it fills a cache for a machine
/// that has a GPU and no compiler.
#[test]
fn kernels_for_an_h200_compile() {
    if let Err(error) = Compiler::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let arch = Arch::for_device(9, 0);
    jit::obtain(PlannerSource::checker(arch).expect("supported")).expect("compiles");
    for expr in VARIANTS {
        let variant = stock::variant(expr);
        for (branch, group) in variant.branches().iter().flat_map(|branch| [8, 16].map(|group| (branch.clone(), group)))
        {
            let traits = KernelTraits::choose(&KernelTraitsRequest {
                group,
                ..KernelTraitsRequest::new(KernelKind::Decode, HEADS.head_dim, Dtypes::bf16(), arch)
            });
            jit::obtain(KernelSource::build(&branch, &traits.expect("a traits")).expect("supported"))
                .expect("compiles");
        }
        if !variant.has_union() {
            jit::obtain(PlannerSource::build(&variant, arch).expect("supported")).expect("compiles");
        }
    }
}

#[test]
fn device_and_host_write_the_same_work_list() {
    let Some(gpu) = Gpu::find() else { return };
    let cases = [
        ("full", BatchCapacity::decode(REQUESTS as u32, KEYS), 1),
        ("causal", BatchCapacity::new(REQUESTS as u32, 3 * REQUESTS as u32, KEYS), 3),
        ("causal + sliding_window(window=300)", BatchCapacity::decode(REQUESTS as u32, KEYS), 1),
        // several tiles per request, and more tiles than shared memory holds
        ("causal + sliding_window(window=70)", BatchCapacity::new(REQUESTS as u32, 9 * REQUESTS as u32, KEYS), 9),
    ];
    for (variant, capacity, queries) in cases {
        let capacity = capacity.in_pages(PAGE, PAGES);
        let attention = gpu.attention(variant);
        let (mut ours, mut theirs) = (gpu.workspace(), gpu.workspace());
        let first = BatchArrays::decode(&[40, 3]);
        let mut by_device = attention.plan(&first.batch(), &[], Some(&capacity), None, &mut ours).expect("within");
        let mut by_host = attention.plan(&first.batch(), &[], Some(&capacity), None, &mut theirs).expect("within");
        let mut random = Random(queries);
        for round in 0..120 {
            let (qo, kv) = random_lens(&mut random, queries);
            let arrays = BatchArrays::new(&qo, &kv, round);
            gpu.put(&arrays);
            by_device.update_on_device(&gpu.stream, &gpu.batch(qo.len())).expect("within");
            by_host.update(&gpu.stream, &arrays.batch()).expect("within");
            by_device.device_status(&gpu.stream).expect("sound");
            let (device, host) = (lists(&by_device, &arrays), lists(&by_host, &arrays));
            let differs = device.iter().zip(&host).position(|(device, host)| device != host);
            assert!(differs.is_none(), "{variant}, round {round}, {} requests: byte {differs:?}", qo.len());
        }
    }
}

#[test]
fn replays_plan_the_current_content_of_the_arrays() {
    let Some(gpu) = Gpu::find() else { return };
    let capacity = BatchCapacity::decode(REQUESTS as u32, 40_000).in_pages(PAGE, PAGES);
    for variant in ["causal", "causal + sliding_window(window=100)"] {
        let attention = gpu.attention(variant);
        let mut workspace = gpu.workspace();
        let mut plan = attention
            .plan(&BatchArrays::decode(&[5]).batch(), &[], Some(&capacity), None, &mut workspace)
            .expect("within");
        plan.prepare_device_updates().expect("a kernel");
        let padded = 8;
        let mut graph = gpu
            .stream
            .capture(|| {
                plan.update_on_device(&gpu.stream, &gpu.batch(padded))?;
                gpu.run(&plan)
            })
            .expect("captured");
        for kv in [&[900, 1, 64, 65, 1000][..], &[40, 3], &[30_000], &[0, 0, 7], &[], &[1000; 8], &[900, 1]] {
            let qo: Vec<u32> = (0..padded).map(|request| u32::from(request < kv.len())).collect();
            let kv: Vec<u32> = (0..padded).map(|request| kv.get(request).copied().unwrap_or(0)).collect();
            let arrays = BatchArrays::new(&qo, &kv, 11);
            gpu.put(&arrays);
            // SAFETY: the plan, its workspace, the arrays and the tensors live as long.
            let replayed = gpu.written(|| unsafe { graph.launch(&gpu.stream) }.expect("replayed"));
            plan.device_status(&gpu.stream).expect("sound");
            let mut apart = gpu.workspace();
            let alone = attention.plan(&arrays.batch(), &[], None, None, &mut apart).expect("sound");
            let alone = gpu.written(|| gpu.run(&alone).expect("runs"));
            assert!(replayed == alone, "{variant}: {kv:?} replayed");
            let eager = gpu.written(|| {
                plan.update_on_device(&gpu.stream, &gpu.batch(padded)).expect("within");
                gpu.run(&plan).expect("runs");
            });
            assert!(eager == alone, "{variant}: {kv:?}");
            plan.update(&gpu.stream, &arrays.batch()).expect("by the host, in between");
            assert!(gpu.written(|| gpu.run(&plan).expect("runs")) == alone, "{variant}: {kv:?} by the host");
        }
    }
}

#[test]
fn a_wrong_batch_sets_the_status_and_writes_nothing() {
    let Some(gpu) = Gpu::find() else { return };
    let capacity = BatchCapacity::decode(8, 4000).in_pages(PAGE, PAGES);
    let attention = gpu.attention("causal");
    let mut workspace = gpu.workspace();
    let arrays = BatchArrays::decode(&[900, 30, 64, 700, 1]);
    let mut plan = attention.plan(&arrays.batch(), &[], Some(&capacity), None, &mut workspace).expect("within");
    plan.device_status(&gpu.stream).expect("nothing was planned on the device");
    let mut written = |arrays: &BatchArrays| {
        gpu.put(arrays);
        let written = gpu.written(|| {
            plan.update_on_device(&gpu.stream, &gpu.batch(5)).expect("launched");
            gpu.run(&plan).expect("launched");
        });
        (written, plan.device_status(&gpu.stream))
    };
    let (sound, status) = written(&arrays);
    status.expect("sound");
    type Corruption = fn(&mut BatchArrays);
    let cases: [(Corruption, BatchError); 4] = [
        (|m| m.qo[2] = 0, BatchError::IndptrNotMonotone { array: "qo_indptr", index: 2, value: 0, before: 1 }),
        (|m| m.kv[3] = -7, BatchError::KvLen { request: 3, kv_len: -7 }),
        (|m| m.kv[0] = 5000, BatchError::Capacity { what: "keys", count: 5000, capacity: 4000 }),
        (|m| m.table.indices[20] = 64, BatchError::PageOutOfPool { index: 20, page: 64, num_pages: 64 }),
    ];
    for (corrupt, want) in cases {
        let mut bad = BatchArrays::decode(&[900, 30, 64, 700, 1]);
        corrupt(&mut bad);
        let (nothing, status) = written(&bad);
        assert!(matches!(&status, Err(CudaError::Batch(error)) if *error == want), "{status:?}, not {want:?}");
        assert!(nothing.iter().all(|&byte| byte == 0xff), "{want}: something was written");
        let (again, status) = written(&arrays);
        status.expect("sound again");
        assert!(again == sound, "after {want}");
    }
    let error = plan.update_on_device(&gpu.stream, &gpu.batch(9)).expect_err("9 of 8 requests");
    assert!(matches!(error, CudaError::Batch(BatchError::Capacity { what: "requests", count: 9, .. })), "{error}");
}

#[test]
fn unsupported_plans_are_refused() {
    let Some(gpu) = Gpu::find() else { return };
    let capacity = BatchCapacity::decode(8, 4000).in_pages(PAGE, PAGES);
    let arrays = BatchArrays::decode(&[900, 30]);
    gpu.put(&arrays);
    let mut workspace = gpu.workspace();
    let union = gpu.attention("causal + union(sliding_window(window=70), full)");
    let mut plan = union.plan(&arrays.batch(), &[], Some(&capacity), None, &mut workspace).expect("within");
    let error = plan.update_on_device(&gpu.stream, &gpu.batch(2)).expect_err("a union");
    assert!(matches!(error, CudaError::NotOnDevice { .. }) && error.to_string().contains("Plan::update"), "{error}");
    let causal = gpu.attention("causal");
    let mut plan = causal.plan(&arrays.batch(), &[], Some(&capacity), None, &mut workspace).expect("within");
    let error = gpu.stream.capture(|| plan.update_on_device(&gpu.stream, &gpu.batch(2))).expect_err("not loaded");
    assert!(matches!(error, CudaError::Capturing { .. }), "{error}");
    let host = DeviceBatch { kv_lens: I32Slice::host(&arrays.kv), ..gpu.batch(2) };
    let error = plan.update_on_device(&gpu.stream, &host).expect_err("host memory");
    assert!(matches!(error, CudaError::HostInts { array: "kv_lens" }), "{error}");
    let mut plan = causal.plan(&arrays.batch(), &[], None, None, &mut workspace).expect("sound");
    let error = plan.update_on_device(&gpu.stream, &gpu.batch(2)).expect_err("of one batch");
    assert!(matches!(error, CudaError::Batch(BatchError::NoCapacity)), "{error}");
}

/// Measures what planning adds to a run in a graph, and the time of each plan of a chain. Prints a line of JSON for
/// each.
#[test]
fn planning_takes_microseconds() {
    let Some(gpu) = Gpu::find() else { return };
    const TIMES: usize = 20;
    let short = |request: u32| 32 + request % 64;
    let long = |request: u32| if request.is_multiple_of(16) { 4096 } else { 1024 };
    for (variant, lens, requests) in [
        ("full", short as fn(u32) -> u32, 64),
        ("full", short, 1024),
        ("causal", short, 64),
        ("causal", short, 1024),
        ("causal + sliding_window(window=128)", short, 64),
        ("causal + sliding_window(window=128)", long, 64),
        ("causal + sliding_window(window=128)", long, 1024),
        ("full", long, 64),
        ("full", long, 1024),
    ] {
        let arrays = BatchArrays::decode(&(0..requests).map(lens).collect::<Vec<u32>>());
        let keys: i32 = arrays.kv.iter().sum();
        let capacity = BatchCapacity::decode(requests, keys as u32).in_pages(PAGE, PAGES);
        let attention = gpu.attention(variant);
        let mut workspace = gpu.workspace();
        let mut plan = attention.plan(&arrays.batch(), &[], Some(&capacity), None, &mut workspace).expect("within");
        plan.prepare_device_updates().expect("a kernel");
        gpu.put(&arrays);
        let mut time = |plans: bool, runs: bool| {
            let graph = gpu.stream.capture(|| {
                for _ in 0..TIMES {
                    if plans {
                        plan.update_on_device(&gpu.stream, &gpu.batch(requests as usize))?;
                    }
                    if runs {
                        gpu.run(&plan)?;
                    }
                }
                Ok::<_, CudaError>(())
            });
            let mut graph = graph.expect("captured");
            // SAFETY: the plan, its workspace, the arrays and the tensors live as long.
            gpu.median(|| unsafe { graph.launch(&gpu.stream) }.expect("replayed")) / TIMES as f32
        };
        let (both, run, chain) = (time(true, true), time(false, true), time(true, false));
        plan.device_status(&gpu.stream).expect("sound");
        println!(
            "{{\"test\": \"device plan\", \"variant\": \"{variant}\", \"requests\": {requests}, \"keys\": {keys}, \
             \"adds_us\": {:.2}, \"chain_us\": {chain:.2}, \"run_us\": {run:.2}}}",
            both - run
        );
    }
}
