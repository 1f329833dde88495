//! Planning on the device; skipped without a GPU. The planner kernel compiled for the host is tested in
//! tests/plan/device_plan.rs.
#![cfg(feature = "cuda")]
#![allow(missing_docs, clippy::print_stderr, clippy::print_stdout)] // a test

use std::ops::Deref;

use crate::gpu::{BatchArrays, Gpu, PAGE, on_each_backend};
use crate::stock::cache;
use attn_core::batch::{BatchCapacity, BatchError, DeviceBatch, DevicePages, I32Slice};
use attn_core::dtype::Dtypes;
use attn_core::spec::{AttentionOptions, Heads, KernelKind};
use attn_kernels::compile::Arch;
use attn_kernels::cuda::{CudaAttention, CudaBuffer, CudaError, CudaPlan, Event};
use attn_kernels::jit;
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::{KernelSource, PlannerKind, PlannerSource};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 64 };
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

/// A device, and arrays for a batch on it.
struct Planner {
    gpu: Gpu,
    qo_indptr: CudaBuffer,
    kv_lens: CudaBuffer,
    page_indptr: CudaBuffer,
    page_indices: CudaBuffer,
}

/// Requests of one query each.
fn decode(kv: &[u32]) -> BatchArrays {
    BatchArrays::new((&vec![1; kv.len()], kv), PAGES, 3)
}

impl Deref for Planner {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        &self.gpu
    }
}

impl Planner {
    fn find() -> Option<Self> {
        let gpu = Gpu::find(HEADS, REQUESTS, PAGES)?;
        let ints = |count: usize| CudaBuffer::new(&gpu.device, count * 4).expect("memory");
        Some(Planner {
            qo_indptr: ints(REQUESTS + 1),
            kv_lens: ints(REQUESTS),
            page_indptr: ints(REQUESTS + 1),
            page_indices: ints((KEYS / PAGE) as usize + REQUESTS),
            gpu,
        })
    }

    fn attention(&self, expr: &str) -> CudaAttention {
        self.attention_of(expr, KernelKind::Decode)
    }

    fn attention_of(&self, expr: &str, kind: KernelKind) -> CudaAttention {
        let [options, _] = on_each_backend();
        self.gpu.attention(expr, AttentionOptions { kernel: Some(kind), ..options })
    }

    /// Decode on tensor cores and on CUDA cores.
    fn on_each_backend(&self, expr: &str) -> [CudaAttention; 2] {
        let decode = |options| AttentionOptions { kernel: Some(KernelKind::Decode), ..options };
        on_each_backend().map(|options| self.gpu.attention(expr, decode(options)))
    }

    /// Copies a batch to the device, in the order of the stream.
    fn put(&self, arrays: &BatchArrays) {
        let write = |buffer: &CudaBuffer, values: &[i32]| {
            // SAFETY: the memory is that of the buffer, which outlives this; the stream orders writes and reads.
            let mut buffer = unsafe { CudaBuffer::from_raw(buffer.device(), buffer.ptr(), buffer.len()) };
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
        let ints = |buffer: &CudaBuffer, count| unsafe { I32Slice::device(buffer.ptr(), count) };
        DeviceBatch::paged(
            ints(&self.qo_indptr, requests + 1),
            ints(&self.kv_lens, requests),
            DevicePages::Compressed {
                indptr: ints(&self.page_indptr, requests + 1),
                indices: ints(&self.page_indices, self.page_indices.len() / 4),
            },
        )
    }

    /// The median time of a launch, in microseconds.
    fn median(&self, mut launch: impl FnMut()) -> f32 {
        let event = || Event::new(&self.device).expect("an event");
        let mut times: Vec<f32> = (0..60)
            .map(|_| {
                let (start, end) = (event(), event());
                self.stream.record(&start).expect("recorded");
                launch();
                self.stream.record(&end).expect("recorded");
                end.synchronize().expect("done");
                end.ms_since(&start).expect("recorded") * 1e3
            })
            .collect();
        times.sort_by(f32::total_cmp);
        times[times.len() / 2]
    }
}

/// The bytes of a plan's work list that the host writes too.
fn lists(plan: &CudaPlan, arrays: &BatchArrays) -> Vec<u8> {
    let (offsets, mut bytes) = plan.read_lists().expect("current");
    bytes.truncate((offsets.page_indices.start + arrays.table.indices.len() * 4).next_multiple_of(16));
    bytes
}

/// Query and key lengths of each request.
fn random_lens(random: &mut SmallRng, queries: u32) -> (Vec<u32>, Vec<u32>) {
    let most = [5, 70, 300, REQUESTS as u32][random.random_range(0..4)];
    let (requests, keys) = (random.random_range(0..=most), [1, 100, 1000, 4096][random.random_range(0..4)]);
    let (equal, mixes) = (random.random_range(0..4) == 0, random.random_range(0..3) == 0);
    let lens = (0..requests).map(|_| {
        let one = mixes && random.random();
        let (few, len) = (random.random_range(1..=if one { 1 } else { queries }), random.random_range(0..=keys));
        (if random.random_range(0..9) == 0 { 0 } else { few }, if equal { keys } else { len })
    });
    lens.unzip()
}

/// Compiles the kernels of the tests below, also without a GPU. With `ATTN_CACHE_DIR` it fills a cache for a machine
/// that has a GPU and no compiler.
#[test]
fn kernels_for_an_h200_compile() {
    let Some(cache) = cache() else { return };
    let arch = Arch::for_device(9, 0);
    jit::obtain_from(&cache, PlannerSource::checker(arch).expect("supported")).expect("compiles");
    for expr in VARIANTS {
        let variant = crate::stock::variant(expr);
        for (branch, group) in variant.branches().iter().flat_map(|branch| [8, 16].map(|group| (branch.clone(), group)))
        {
            let traits = KernelTraits::choose(&KernelTraitsRequest {
                group,
                ..KernelTraitsRequest::new(KernelKind::Decode, HEADS.head_dim, Dtypes::bf16(), arch)
            });
            jit::obtain_from(&cache, KernelSource::build(&branch, &traits.expect("a traits")).expect("supported"))
                .expect("compiles");
        }
        if !variant.has_union() {
            for kind in PlannerKind::ALL {
                let source = PlannerSource::build(&variant, kind, arch).expect("supported");
                jit::obtain_from(&cache, source).expect("compiles");
            }
        }
    }
}

#[test]
fn device_and_host_write_the_same_work_list() {
    let Some(gpu) = Planner::find() else { return };
    let cases = [
        (KernelKind::Decode, "full", 1, 1),
        (KernelKind::Decode, "causal", 3, 1),
        (KernelKind::Decode, "causal + sliding_window(window=300)", 1, 1),
        // several tiles per request, and more tiles than shared memory holds
        (KernelKind::Decode, "causal + sliding_window(window=70)", 9, 1),
        (KernelKind::Prefill, "full", 1, 1),
        (KernelKind::Prefill, "causal", 40, 1),
        (KernelKind::Prefill, "causal + sliding_window(window=300)", 200, 1),
        (KernelKind::Mixed, "full", 1, 1),
        (KernelKind::Mixed, "causal", 40, 1),
        (KernelKind::Mixed, "causal + sliding_window(window=300)", 200, 1),
        // batches without levels, in a plan that may have them
        (KernelKind::Mixed, "causal", 40, 2),
    ];
    for (kind, variant, queries, levels) in cases {
        let capacity = BatchCapacity::new(REQUESTS as u32, queries * REQUESTS as u32, KEYS);
        let capacity = capacity.in_pages(PAGE, PAGES).in_levels(levels);
        let attention = gpu.attention_of(variant, kind);
        let (mut ours, mut theirs) = (gpu.workspace(), gpu.workspace());
        let first = decode(&[40, 3]);
        let mut by_device = attention.plan(&first.batch(), &[], Some(&capacity), None, &mut ours).expect("within");
        let mut by_host = attention.plan(&first.batch(), &[], Some(&capacity), None, &mut theirs).expect("within");
        let mut random = SmallRng::seed_from_u64(queries.into());
        for round in 0..80 {
            let (qo, kv) = random_lens(&mut random, queries);
            let arrays = BatchArrays::new((&qo, &kv), PAGES, round);
            gpu.put(&arrays);
            by_device.update_on_device(&gpu.stream, &gpu.batch(qo.len())).expect("within");
            by_host.update(&gpu.stream, &arrays.batch()).expect("within");
            by_device.device_status(&gpu.stream).expect("sound");
            let (device, host) = (lists(&by_device, &arrays), lists(&by_host, &arrays));
            let differs = device.iter().zip(&host).position(|(device, host)| device != host);
            assert!(differs.is_none(), "{kind}, {variant}, round {round}, {} requests: byte {differs:?}", qo.len());
        }
    }
}

#[test]
fn replays_plan_the_current_content_of_the_arrays() {
    let Some(gpu) = Planner::find() else { return };
    let capacity = BatchCapacity::new(REQUESTS as u32, REQUESTS as u32, 40_000).in_pages(PAGE, PAGES);
    let variants = ["causal", "causal + sliding_window(window=100)"];
    let attentions = variants.into_iter().flat_map(|expr| {
        let decode = gpu.on_each_backend(expr).map(|attention| (expr, 1, attention, false));
        let of_kind = |kind| (expr, 100, gpu.attention_of(expr, kind), kind == KernelKind::Mixed);
        decode.into_iter().chain([KernelKind::Prefill, KernelKind::Mixed].map(of_kind))
    });
    for (variant, queries, attention, mixes) in attentions {
        let capacity = BatchCapacity { qo_len: queries, ..capacity };
        let mut workspace = gpu.workspace();
        let mut plan =
            attention.plan(&decode(&[5]).batch(), &[], Some(&capacity), None, &mut workspace).expect("within");
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
            let qo_len = |request: usize| match request {
                request if request >= kv.len() => 0,
                request if mixes && !request.is_multiple_of(2) => 1,
                request => queries - (request as u32 % queries.min(7)),
            };
            let qo: Vec<u32> = (0..padded).map(qo_len).collect();
            let kv: Vec<u32> = (0..padded).map(|request| kv.get(request).copied().unwrap_or(0)).collect();
            let arrays = BatchArrays::new((&qo, &kv), PAGES, 11);
            gpu.put(&arrays);
            // SAFETY: the plan, its workspace, the arrays and the tensors live as long.
            let replayed = gpu.written(|| unsafe { graph.launch(&gpu.stream) });
            plan.device_status(&gpu.stream).expect("sound");
            let mut apart = gpu.workspace();
            let alone = attention.plan(&arrays.batch(), &[], None, None, &mut apart).expect("sound");
            let alone = gpu.written(|| gpu.run(&alone));
            assert!(replayed == alone, "{variant}: {kv:?} replayed");
            let eager = gpu.written(|| {
                plan.update_on_device(&gpu.stream, &gpu.batch(padded)).expect("within");
                gpu.run(&plan)
            });
            assert!(eager == alone, "{variant}: {kv:?}");
            plan.update(&gpu.stream, &arrays.batch()).expect("by the host, in between");
            assert!(gpu.written(|| gpu.run(&plan)) == alone, "{variant}: {kv:?} by the host");
        }
    }
}

#[test]
fn a_wrong_batch_sets_the_status_and_writes_nothing() {
    let Some(gpu) = Planner::find() else { return };
    let capacity = BatchCapacity::decode(8, 4000).in_pages(PAGE, PAGES);
    for kind in [KernelKind::Decode, KernelKind::Prefill, KernelKind::Mixed] {
        wrong_batches(&gpu, &gpu.attention_of("causal", kind), &capacity);
    }
}

fn wrong_batches(gpu: &Planner, attention: &CudaAttention, capacity: &BatchCapacity) {
    let mut workspace = gpu.workspace();
    let arrays = decode(&[900, 30, 64, 700, 1]);
    let mut plan = attention.plan(&arrays.batch(), &[], Some(capacity), None, &mut workspace).expect("within");
    plan.device_status(&gpu.stream).expect("nothing was planned on the device");
    let mut written = |arrays: &BatchArrays| {
        gpu.put(arrays);
        let written = gpu.written(|| {
            plan.update_on_device(&gpu.stream, &gpu.batch(5)).expect("launched");
            gpu.run(&plan)
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
        let mut bad = decode(&[900, 30, 64, 700, 1]);
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
    let Some(gpu) = Planner::find() else { return };
    let capacity = BatchCapacity::decode(8, 4000).in_pages(PAGE, PAGES);
    let arrays = decode(&[900, 30]);
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
    let Some(gpu) = Planner::find() else { return };
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
        let arrays = decode(&(0..requests).map(lens).collect::<Vec<u32>>());
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

/// Measures plans of prefill and of mixed launches, of a chain. Prints a line of JSON for each.
#[test]
fn planning_of_prefill_takes_microseconds() {
    let Some(gpu) = Planner::find() else { return };
    const TIMES: usize = 20;
    let kinds = [KernelKind::Prefill, KernelKind::Mixed];
    for (kind, (variant, requests, queries)) in kinds.into_iter().flat_map(|kind| {
        let cases = [
            ("causal", 1, 8192),
            ("causal", 64, 1),
            ("causal", 64, 128),
            ("causal", 1024, 1),
            ("causal", 1024, 64),
            ("causal + sliding_window(window=128)", 64, 128),
            ("causal + sliding_window(window=128)", 1024, 64),
        ];
        cases.map(|case| (kind, case))
    }) {
        let qo: Vec<u32> = (0..requests).map(|request| if request % 4 == 3 { 1 } else { queries }).collect();
        let kv: Vec<u32> = qo.iter().map(|queries| queries + 1000).collect();
        let arrays = BatchArrays::new((&qo, &kv), PAGES, 3);
        let capacity = BatchCapacity::new(requests, requests * queries, kv.iter().sum()).in_pages(PAGE, PAGES);
        let attention = gpu.attention_of(variant, kind);
        let mut workspace = gpu.workspace();
        let mut plan = attention.plan(&arrays.batch(), &[], Some(&capacity), None, &mut workspace).expect("within");
        plan.prepare_device_updates().expect("a kernel");
        gpu.put(&arrays);
        let chain = gpu
            .stream
            .capture(|| (0..TIMES).try_for_each(|_| plan.update_on_device(&gpu.stream, &gpu.batch(requests as usize))));
        let mut chain = chain.expect("captured");
        // SAFETY: the plan, its workspace and the arrays live as long.
        let time = gpu.median(|| unsafe { chain.launch(&gpu.stream) }.expect("replayed")) / TIMES as f32;
        plan.device_status(&gpu.stream).expect("sound");
        println!(
            "{{\"test\": \"device plan of {kind}\", \"variant\": \"{variant}\", \"requests\": {requests}, \
             \"queries\": {queries}, \"chain_us\": {time:.2}}}"
        );
    }
}
