//! Planning of batches with levels on the device; skipped without a GPU. The planner kernel compiled for the host is
//! tested in tests/plan/device_levels.rs.
#![cfg(feature = "cuda")]
#![allow(clippy::print_stdout)] // a test

use crate::gpu::{BatchArrays, Gpu, PAGE};
use attn_core::batch::{
    Batch, BatchCapacity, BatchError, CascadeLevel, CascadeLevelKv, DeviceBatch, DevicePages, I32Slice,
};
use attn_core::spec::{AttentionOptions, Heads, KernelKind};
use attn_kernels::cuda::{CudaBuffer, CudaError, CudaPlan, Event};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 64 };
const PAGES: u32 = 256;
const REQUESTS: usize = 64;
/// Of a request.
const QUERIES: u32 = 24;

/// A batch with levels, outermost first; the last level has the requests.
struct Cascade {
    levels: Vec<BatchArrays>,
}

impl Cascade {
    /// `groups` has for each level before the requests the requests of each group, and the keys of the groups.
    fn new(qo: &[u32], own: &[u32], groups: &[(Vec<u32>, Vec<u32>)], seed: u32) -> Self {
        let shared = groups.iter().map(|(groups, kv)| {
            let mut requests = qo.iter();
            let queries = groups.iter().map(|&count| requests.by_ref().take(count as usize).sum());
            (queries.collect::<Vec<u32>>(), kv.clone())
        });
        let levels = shared.chain([(qo.to_vec(), own.to_vec())]);
        let arrays = (seed..).zip(levels).map(|(seed, (qo, kv))| BatchArrays::new((&qo, &kv), PAGES, seed));
        Cascade { levels: arrays.collect() }
    }

    fn random(random: &mut SmallRng, seed: u32) -> Self {
        let requests = random.random_range(1..=REQUESTS as u32);
        let queries = [1, 1, QUERIES][random.random_range(0..3)];
        let lens = |random: &mut SmallRng, count: u32, most: u32| -> Vec<u32> {
            (0..count).map(|_| random.random_range(0..=most)).collect()
        };
        let qo: Vec<u32> = (0..requests).map(|_| random.random_range(1..=queries)).collect();
        let own = lens(random, requests, 300);
        let half = requests / 2;
        let pair = (vec![half, requests - half], lens(random, 2, 900));
        let all = (vec![requests], lens(random, 1, 4000));
        Self::new(&qo, &own, &[all, pair][random.random_range(0..2)..], seed)
    }

    fn own(&self) -> &BatchArrays {
        self.levels.last().expect("the requests")
    }

    fn levels(&self) -> Vec<CascadeLevel<'_>> {
        let levels = self.levels.iter();
        levels.map(|of| CascadeLevel { qo_indptr: &of.qo, kv: CascadeLevelKv::Paged(of.table.table()) }).collect()
    }
}

/// The arrays of a cascade on the device.
struct DeviceTables {
    levels: Vec<[CudaBuffer; 4]>,
}

impl DeviceTables {
    fn put(gpu: &Gpu, cascade: &Cascade) -> Self {
        let upload = |ints: &[i32]| {
            let padded: Vec<i32> = ints.iter().copied().chain([0]).collect();
            CudaBuffer::upload(&gpu.device, bytemuck::cast_slice(&padded)).expect("memory")
        };
        let arrays = |of: &BatchArrays| [&of.qo, &of.kv, &of.table.indptr, &of.table.indices].map(|ints| upload(ints));
        DeviceTables { levels: cascade.levels.iter().map(arrays).collect() }
    }

    /// The levels, the requests' own keys among them.
    fn levels(&self) -> Vec<DeviceBatch<'_>> {
        // SAFETY: a buffer has one more number, and lives until the device was waited for.
        let ints = |buffer: &CudaBuffer| unsafe { I32Slice::device(buffer.ptr(), buffer.len() / 4 - 1) };
        let level = |of: &[CudaBuffer; 4]| {
            let [qo_indptr, kv_lens, indptr, indices] = of.each_ref().map(ints);
            DeviceBatch::paged(qo_indptr, kv_lens, DevicePages::Compressed { indptr, indices })
        };
        self.levels.iter().map(level).collect()
    }
}

fn batch<'a>(levels: &'a [DeviceBatch<'a>]) -> DeviceBatch<'a> {
    let (own, levels) = levels.split_last().expect("the requests");
    own.with_levels(levels)
}

/// Mixed kernels run cascades with their levels.
fn mixed() -> AttentionOptions {
    AttentionOptions { kernel: Some(KernelKind::Mixed), ..AttentionOptions::default() }
}

fn capacity() -> BatchCapacity {
    let queries = REQUESTS as u32 * QUERIES;
    let capacity = BatchCapacity::new(REQUESTS as u32, queries, REQUESTS as u32 * 5300);
    BatchCapacity { qo_len: QUERIES, ..capacity }.in_pages(PAGE, PAGES).in_levels(3)
}

/// The bytes of a plan's work list that the host writes too.
fn lists(plan: &CudaPlan, pages: usize) -> Vec<u8> {
    let (offsets, mut bytes) = plan.read_lists().expect("current");
    bytes.truncate((offsets.page_indices.start + pages * 4).next_multiple_of(16));
    bytes
}

fn find() -> Option<Gpu> {
    Gpu::find(HEADS, REQUESTS * QUERIES as usize, PAGES)
}

#[test]
fn device_and_host_write_the_same_lists_of_cascades() {
    let Some(gpu) = find() else { return };
    for variant in ["full", "causal", "causal + sliding_window(window=300)"] {
        let attention = gpu.attention(variant, mixed());
        let (mut ours, mut theirs) = (gpu.workspace(), gpu.workspace());
        let first = BatchArrays::new((&[1, 1], &[40, 3]), PAGES, 3);
        let plan = |workspace| attention.plan(&first.batch(), &[], Some(&capacity()), None, workspace);
        let mut by_device = plan(&mut ours).expect("within");
        let mut by_host = plan(&mut theirs).expect("within");
        let mut random = SmallRng::seed_from_u64(1);
        for round in 0..60 {
            let cascade = Cascade::random(&mut random, round);
            let (on_device, levels) = (DeviceTables::put(&gpu, &cascade), cascade.levels());
            let host = Batch::cascade(&cascade.own().qo, &levels);
            by_host.update(&gpu.stream, &host).expect("within");
            by_device.update_on_device(&gpu.stream, &batch(&on_device.levels())).expect("within");
            by_device.device_status(&gpu.stream).expect("sound");
            let pages = host.validate().expect("sound").pages().map_or(0, |pages| pages.indices().len());
            let (device, host) = (lists(&by_device, pages), lists(&by_host, pages));
            let differs = device.iter().zip(&host).position(|(device, host)| device != host);
            assert!(differs.is_none(), "{variant}, round {round}: byte {differs:?}");
        }
    }
}

#[test]
fn replays_plan_the_levels_that_the_arrays_have() {
    let Some(gpu) = find() else { return };
    let attention = gpu.attention("causal", mixed());
    let mut workspace = gpu.workspace();
    let own = |len: u32| vec![len; REQUESTS];
    let of = |prompt: u32, len: u32, queries: u32| {
        let all = (vec![REQUESTS as u32], vec![prompt]);
        Cascade::new(&vec![queries; REQUESTS], &own(len), &[all], prompt)
    };
    // page tables of one size, so that the arrays of another batch fit
    let first = of(1600, 160, 1);
    let on_device = DeviceTables::put(&gpu, &first);
    let (levels, host) = (on_device.levels(), first.levels());
    let first = Batch::cascade(&first.own().qo, &host);
    let mut plan = attention.plan(&first, &[], Some(&capacity()), None, &mut workspace).expect("within");
    plan.prepare_device_updates().expect("kernels");
    let captured = gpu.stream.capture(|| {
        plan.update_on_device(&gpu.stream, &batch(&levels))?;
        gpu.run(&plan)
    });
    let mut graph = captured.expect("captured");
    for (prompt, len, queries) in [(1600, 160, 1), (0, 160, 1), (1590, 145, 1), (1600, 150, 20), (16, 0, 3)] {
        let cascade = of(prompt, len, queries);
        for (to, of) in on_device.levels.iter().zip(&cascade.levels) {
            for (to, ints) in to.iter().zip([&of.qo, &of.kv, &of.table.indptr, &of.table.indices]) {
                // SAFETY: the memory is that of the buffer, which outlives this; the stream orders writes and reads.
                let mut to = unsafe { CudaBuffer::from_raw(&gpu.device, to.ptr(), to.len()) };
                to.write(&gpu.stream, 0, bytemuck::cast_slice(ints)).expect("room");
            }
        }
        // SAFETY: the plan, its workspace, the arrays and the tensors live as long.
        let replayed = gpu.written(|| unsafe { graph.launch(&gpu.stream) });
        plan.device_status(&gpu.stream).expect("sound");
        let host = cascade.levels();
        let host = Batch::cascade(&cascade.own().qo, &host);
        let mut apart = gpu.workspace();
        let mut alone = attention.plan(&host, &[], Some(&capacity()), None, &mut apart).expect("within");
        alone.update(&gpu.stream, &host).expect("within");
        assert!(replayed == gpu.written(|| gpu.run(&alone)), "{prompt} and {len} keys, {queries} queries");
    }
}

#[test]
fn wrong_levels_set_the_status_and_write_nothing() {
    let Some(gpu) = find() else { return };
    let attention = gpu.attention("causal", mixed());
    let mut workspace = gpu.workspace();
    let cascade = || Cascade::new(&[1; 8], &[30; 8], &[(vec![8], vec![900]), (vec![4, 4], vec![64, 0])], 3);
    let sound = cascade();
    let levels = sound.levels();
    let first = Batch::cascade(&sound.own().qo, &levels);
    let mut plan = attention.plan(&first, &[], Some(&capacity()), None, &mut workspace).expect("within");
    type Corruption = fn(&mut Cascade);
    let in_level = |level, error| BatchError::CascadeLevel { level, error: Box::new(error) };
    let cases: [(Corruption, BatchError); 4] = [
        (|c| c.levels[0].kv[0] = -1, in_level(0, BatchError::KvLen { request: 0, kv_len: -1 })),
        (|c| c.levels[1].qo[2] = 7, in_level(1, BatchError::LevelEnd { value: 7, want: 8 })),
        (
            |c| c.levels[1].table.indices[2] = 256,
            in_level(1, BatchError::PageOutOfPool { index: 2, page: 256, num_pages: 256 }),
        ),
        (|c| c.levels[2].kv[3] = -7, BatchError::KvLen { request: 3, kv_len: -7 }),
    ];
    for (corrupt, want) in cases {
        let mut bad = cascade();
        corrupt(&mut bad);
        let on_device = DeviceTables::put(&gpu, &bad);
        let written = gpu.written(|| {
            plan.update_on_device(&gpu.stream, &batch(&on_device.levels()))?;
            gpu.run(&plan)
        });
        let status = plan.device_status(&gpu.stream);
        assert!(matches!(&status, Err(CudaError::Batch(error)) if *error == want), "{status:?}, not {want:?}");
        assert!(written.iter().all(|&byte| byte == 0xff), "{want}: something was written");
    }
    let on_device = DeviceTables::put(&gpu, &sound);
    let without = BatchCapacity { levels: 1, ..capacity() };
    let mut apart = gpu.workspace();
    let arrays = BatchArrays::new((&[1], &[5]), PAGES, 3);
    let mut flat = attention.plan(&arrays.batch(), &[], Some(&without), None, &mut apart).expect("within");
    let error = flat.update_on_device(&gpu.stream, &batch(&on_device.levels())).expect_err("no levels");
    assert!(matches!(error, CudaError::Batch(BatchError::LevelsInCapacity)), "{error}");
}

/// Measures plans of requests that share a prompt, of a chain. Prints a line of JSON for each.
#[test]
fn planning_of_cascades_takes_microseconds() {
    let Some(gpu) = find() else { return };
    const TIMES: usize = 20;
    for (variant, prompt, queries) in [
        ("full", 2000, 1),
        ("causal", 2000, 1),
        ("causal", 2000, QUERIES),
        ("causal + sliding_window(window=300)", 2000, 1),
    ] {
        let attention = gpu.attention(variant, mixed());
        let mut workspace = gpu.workspace();
        let all = (vec![REQUESTS as u32], vec![prompt]);
        let cascade = Cascade::new(&[queries; REQUESTS], &[200; REQUESTS], &[all], 5);
        let (on_device, host) = (DeviceTables::put(&gpu, &cascade), cascade.levels());
        let levels = on_device.levels();
        let first = Batch::cascade(&cascade.own().qo, &host);
        let mut plan = attention.plan(&first, &[], Some(&capacity()), None, &mut workspace).expect("within");
        plan.prepare_device_updates().expect("kernels");
        let chain =
            gpu.stream.capture(|| (0..TIMES).try_for_each(|_| plan.update_on_device(&gpu.stream, &batch(&levels))));
        let mut chain = chain.expect("captured");
        let event = || Event::new(&gpu.device).expect("an event");
        let mut times: Vec<f32> = (0..60)
            .map(|_| {
                let (start, end) = (event(), event());
                gpu.stream.record(&start).expect("recorded");
                // SAFETY: the plan, its workspace and the arrays live as long.
                unsafe { chain.launch(&gpu.stream) }.expect("replayed");
                gpu.stream.record(&end).expect("recorded");
                end.synchronize().expect("done");
                end.ms_since(&start).expect("recorded") * 1e3 / TIMES as f32
            })
            .collect();
        times.sort_by(f32::total_cmp);
        plan.device_status(&gpu.stream).expect("sound");
        println!(
            "{{\"test\": \"device plan of cascades\", \"variant\": \"{variant}\", \"requests\": {REQUESTS}, \
             \"queries\": {queries}, \"prompt\": {prompt}, \"chain_us\": {:.2}}}",
            times[times.len() / 2]
        );
    }
}
