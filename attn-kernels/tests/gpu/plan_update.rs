//! Updates of a plan's batch under a captured run; skipped without a GPU.
#![cfg(feature = "cuda")]
#![allow(missing_docs, clippy::print_stderr)] // a test

use crate::gpu::{BatchArrays, Gpu, Lens, PAGE, floats, on_each_backend};
use attn_core::batch::{Batch, BatchCapacity, BatchError, CascadeLevel, CascadeLevelKv, PageTableBuf, indptr};
use attn_core::spec::{AttentionOptions, Heads, KernelKind};
use attn_core::tensor::TensorError;
use attn_kernels::cuda::{CudaError, CudaStream};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };
const PAGES: u32 = 64;
/// Capacity of the tensors in queries.
const QUERIES: usize = 200;

fn find() -> Option<Gpu> {
    Gpu::find(HEADS, QUERIES, PAGES)
}

fn paged(lens: Lens<'_>) -> BatchArrays {
    BatchArrays::new(lens, PAGES, 0)
}

#[test]
fn replays_follow_updates() {
    let Some(gpu) = find() else { return };
    let decode: [Lens<'_>; 6] = [
        (&[1, 1], &[40, 3]),
        (&[1; 5], &[900, 1, 64, 65, 1000]),
        (&[], &[]),
        (&[1, 0, 1, 0, 0], &[1024, 0, 700, 0, 0]),
        (&[1], &[1024]),
        (&[1; 5], &[1000; 5]),
    ];
    let prefill: [Lens<'_>; 5] =
        [(&[3], &[9]), (&[100, 1, 99], &[1000, 1024, 99]), (&[], &[]), (&[0, 130], &[5, 600]), (&[200], &[1024])];
    // both parts, one of them, and none
    let mixed: [Lens<'_>; 6] = [
        (&[1, 1, 60], &[40, 1000, 60]),
        (&[100, 1, 1, 1, 97], &[900, 1000, 1, 64, 97]),
        (&[], &[]),
        (&[1; 5], &[1000, 3, 700, 64, 9]),
        (&[200], &[1024]),
        (&[0, 130, 2], &[5, 600, 1024]),
    ];
    let cases = [
        (&decode[..], BatchCapacity::decode(5, 6000), KernelKind::Decode),
        (&prefill[..], BatchCapacity::new(3, 200, 4000), KernelKind::Prefill),
        (&mixed[..], BatchCapacity::new(5, 200, 4000), KernelKind::Mixed),
    ];
    let cases = cases.into_iter().flat_map(|case| on_each_backend().map(|options| (case, options)));
    for ((batches, capacity, kind), options) in cases {
        let capacity = capacity.in_pages(PAGE, PAGES);
        let attention = gpu.attention("causal", AttentionOptions { kernel: Some(kind), ..options });
        let mut workspace = gpu.workspace();
        let first = paged(batches[0]);
        let mut plan = attention.plan(&first.batch(), &[], Some(&capacity), None, &mut workspace).expect("within");
        assert_eq!(
            workspace.capacity(),
            attention.workspace_size(&first.batch(), &[], Some(&capacity)).expect("sound")
        );
        let mut graph =
            gpu.stream.capture(|| gpu.run_on(&gpu.stream, &plan, capacity.qo_tokens as usize)).expect("captured");
        let mut replay = || {
            // SAFETY: the plan, its workspace and the tensors live as long, and updates are on the same stream.
            gpu.written(|| unsafe { graph.launch(&gpu.stream) })
        };
        assert!(replay() == gpu.alone(&attention, &paged(batches[0]).batch()), "{kind}: as captured");
        for &lens in batches.iter().chain(&batches[..2]) {
            plan.update(&gpu.stream, &paged(lens).batch()).expect("within");
            let replayed = replay();
            let run = gpu.written(|| gpu.run(&plan));
            let alone = gpu.alone(&attention, &paged(lens).batch());
            assert!(replayed == alone && run == alone, "{kind}: {lens:?}");
        }
    }
}

/// The number of requests of each group, and the keys that they share.
type Groups<'a> = (&'a [u32], &'a [u32]);

/// A cascade over paged keys.
struct Shared {
    qo: Vec<i32>,
    levels: Vec<(Vec<i32>, PageTableBuf)>,
}

impl Shared {
    /// From the query lengths, the groups of each shared level, and the lengths of the requests' own keys.
    fn new(qo: &[u32], shared: &[Groups<'_>], own: &[u32]) -> Self {
        let qo = indptr(qo).expect("short");
        let mut next = 0;
        let mut table = |lens: &[u32]| {
            PageTableBuf::from_lens(lens, PAGE, PAGES, || {
                next += 11;
                next % PAGES as i32
            })
        };
        let level = |&(groups, lens): &Groups<'_>| {
            let requests = indptr(groups).expect("short");
            (requests.iter().map(|&end| qo[end as usize]).collect(), table(lens))
        };
        let mut levels: Vec<_> = shared.iter().map(level).collect();
        levels.push((qo.clone(), table(own)));
        Shared { qo, levels }
    }

    fn levels(&self) -> Vec<CascadeLevel<'_>> {
        self.levels
            .iter()
            .map(|(qo_indptr, table)| CascadeLevel { qo_indptr, kv: CascadeLevelKv::Paged(table.table()) })
            .collect()
    }
}

#[test]
fn replays_follow_updates_of_cascades() {
    let Some(gpu) = find() else { return };
    let cascades = [
        Shared::new(&[1; 12], &[(&[12], &[800])], &[40, 3, 0, 17, 64, 65, 1, 9, 9, 30, 100, 2]),
        Shared::new(&[1; 3], &[(&[3], &[33])], &[5, 6, 7]),
        Shared::new(&[1, 40, 0, 3, 1, 1], &[(&[6], &[333]), (&[2, 4], &[70, 512])], &[7, 40, 1, 9, 0, 200]),
        Shared::new(&[1; 16], &[(&[8, 8], &[1000, 640]), (&[2, 6, 4, 4], &[0, 64, 9, 33])], &[13; 16]),
        Shared::new(&[1; 16], &[], &[700; 16]),
        Shared::new(&[], &[(&[0], &[0])], &[]),
    ];
    let lone: [Lens<'_>; 2] = [(&[1; 9], &[900, 1, 64, 65, 1000, 3, 0, 77, 512]), (&[40, 1, 1], &[40, 1000, 3])];
    let capacity =
        BatchCapacity { qo_len: 40, ..BatchCapacity::new(16, 64, 30_000) }.in_pages(PAGE, PAGES).in_levels(3);
    // options name the kernel, so that levels run even if they do not pay
    let attention =
        gpu.attention("causal", AttentionOptions { kernel: Some(KernelKind::Mixed), ..AttentionOptions::default() });
    let mut workspace = gpu.workspace();
    let first = cascades[1].levels();
    let first = Batch::cascade(&cascades[1].qo, &first);
    let mut plan = attention.plan(&first, &[], Some(&capacity), None, &mut workspace).expect("within");
    assert_eq!(workspace.capacity(), attention.workspace_size(&first, &[], Some(&capacity)).expect("sound"));
    let mut graph = gpu.stream.capture(|| gpu.run_on(&gpu.stream, &plan, 64)).expect("captured");
    let mut replay = || {
        // SAFETY: the plan, its workspace and the tensors live as long, and updates are on the same stream.
        gpu.written(|| unsafe { graph.launch(&gpu.stream) })
    };
    for round in 0..2 {
        for (number, cascade) in cascades.iter().enumerate() {
            let levels = cascade.levels();
            let batch = Batch::cascade(&cascade.qo, &levels);
            plan.update(&gpu.stream, &batch).expect("within");
            assert!(plan.layout().has_levels());
            let replayed = replay();
            let mut own = gpu.workspace();
            let alone = attention.plan(&batch, &[], None, None, &mut own).expect("sound");
            // a plan without capacity has the decode tile for its groups; two of these cascades have groups of 10 and
            // 16 rows
            let same_kernel = alone.kernel().traits() == plan.kernel().traits();
            assert_eq!(same_kernel, ![2, 3].contains(&number), "cascade {number}");
            let alone = gpu.written(|| gpu.run(&alone));
            let apart = furthest(&replayed, &alone);
            assert!(
                if same_kernel { replayed == alone } else { apart <= 0.02 },
                "round {round}, cascade {number}: {apart}"
            );
        }
        // batches without levels run the mixed kernel here; a plan without capacity runs another kernel
        for lens in lone {
            plan.update(&gpu.stream, &paged(lens).batch()).expect("within");
            let replayed = replay();
            let mut other = gpu.workspace();
            let other = attention
                .plan(&paged(lens).batch(), &[], Some(&capacity), None, &mut other)
                .map(|plan| gpu.written(|| gpu.run(&plan)));
            assert!(replayed == other.expect("within"), "{lens:?}");
            let apart = furthest(&replayed, &gpu.alone(&attention, &paged(lens).batch()));
            assert!(apart <= 0.02, "{lens:?}: {apart}");
        }
    }
    // without a named kernel, costs decide whether levels run, in the same kernel
    let auto = gpu.attention("causal", AttentionOptions::default());
    let mut workspace = gpu.workspace();
    let short = Shared::new(&[1, 1], &[(&[2], &[16])], &[40, 5]);
    let mut of_auto = auto.plan(&first, &[], Some(&capacity), None, &mut workspace).expect("within");
    for (cascade, shares) in [(&short, Some(false)), (&cascades[0], None), (&cascades[2], Some(true))] {
        let levels = cascade.levels();
        let batch = Batch::cascade(&cascade.qo, &levels);
        of_auto.update(&gpu.stream, &batch).expect("within");
        assert!(
            of_auto.kind() == KernelKind::Mixed && shares.is_none_or(|shares| shares == of_auto.layout().has_levels())
        );
        let run = gpu.written(|| gpu.run(&of_auto));
        let mut own = gpu.workspace();
        let alone = auto.plan(&batch, &[], None, None, &mut own).expect("sound");
        let apart = furthest(&run, &gpu.written(|| gpu.run(&alone)));
        assert!(apart <= 0.02, "{apart}");
    }

    let four = Shared::new(&[1; 2], &[(&[2], &[64]), (&[2], &[64]), (&[2], &[64])], &[5, 6]);
    let error = plan.update(&gpu.stream, &Batch::cascade(&four.qo, &four.levels())).expect_err("four levels");
    let past = BatchError::Capacity { what: "levels", count: 4, capacity: 3 };
    assert!(matches!(&error, CudaError::Batch(e) if *e == past), "{error}");
}

/// The largest difference of bf16 values; values that no run wrote are equal.
fn furthest(one: &[u8], two: &[u8]) -> f32 {
    let pairs = floats(one).into_iter().zip(floats(two)).filter(|(one, two)| one.to_bits() != two.to_bits());
    let apart = pairs.map(|(one, two)| (one - two).abs());
    apart.map(|apart| if apart.is_nan() { f32::INFINITY } else { apart }).fold(0.0, f32::max)
}

#[test]
fn captures_that_a_replay_could_not_run_are_refused() {
    let Some(gpu) = find() else { return };
    let capacity = BatchCapacity::decode(4, 2000).in_pages(PAGE, PAGES);
    let attention = gpu.attention("causal", AttentionOptions::default());
    let mut workspace = gpu.workspace();
    let lens: Lens<'_> = (&[1, 1], &[40, 3]);
    let (arrays, alone) = (paged(lens), gpu.alone(&attention, &paged(lens).batch()));
    let mut plan = attention.plan(&arrays.batch(), &[], Some(&capacity), None, &mut workspace).expect("within");

    // tensors that fit the batch but not the capacity may run, but not be captured
    gpu.run_on(&gpu.stream, &plan, 2).expect("runs");
    let error = gpu.stream.capture(|| gpu.run_on(&gpu.stream, &plan, 2)).expect_err("2 of 4 queries");
    assert!(matches!(error, CudaError::Tensor(TensorError::Shape { tensor: "q", got: 2, want: 4, .. })), "{error}");
    let error = gpu.stream.capture(|| plan.update(&gpu.stream, &arrays.batch())).expect_err("under a capture");
    assert!(matches!(error, CudaError::Capturing { .. }), "{error}");

    let five = paged((&[1; 5], &[9; 5]));
    let error = plan.update(&gpu.stream, &five.batch()).expect_err("5 of 4 requests");
    let exceeded = BatchError::Capacity { what: "requests", count: 5, capacity: 4 };
    assert!(matches!(&error, CudaError::Batch(e) if *e == exceeded), "{error}");
    let run = gpu.written(|| gpu.run(&plan));
    assert!(run == alone, "the plan has not changed");

    plan.update(&gpu.stream, &arrays.batch()).expect("within");
    let other = CudaStream::new(&gpu.device).expect("a stream");
    let run = gpu.written(|| {
        gpu.stream.synchronize().expect("o is filled");
        gpu.run_on(&other, &plan, QUERIES)
    });
    assert!(run == alone, "a run on another stream");
    let mut later = attention.plan(&arrays.batch(), &[], None, None, &mut workspace).expect("sound");
    let error = plan.update(&gpu.stream, &arrays.batch()).expect_err("the workspace holds another");
    assert!(matches!(error, CudaError::StalePlan), "{error}");
    let error = later.update(&gpu.stream, &arrays.batch()).expect_err("of one batch");
    assert!(matches!(error, CudaError::Batch(BatchError::NoCapacity)), "{error}");
}

#[test]
fn batch_invariant_requests_are_bit_exact_in_any_batch() {
    let Some(gpu) = find() else { return };
    let cases: [Lens<'_>; 2] = [(&[1; 6], &[1024, 7, 300, 0, 1000, 64]), (&[70, 30, 20, 9], &[1024, 700, 20, 0])];
    let first = |bytes: Vec<u8>, queries: u32| bytes[..queries as usize * 4 * 64 * 2].to_vec();
    let attention = |options| gpu.attention("causal", AttentionOptions { fixed_split_size: Some(256), ..options });
    let [default, cuda_cores] = on_each_backend().map(attention);
    for ((qo, kv), attention) in cases.into_iter().flat_map(|case| [(case, &default), (case, &cuda_cores)]) {
        for request in 0..qo.len() {
            let (mut qo, mut kv) = (qo.to_vec(), kv.to_vec());
            qo.rotate_left(request);
            kv.rotate_left(request);
            let alone = first(gpu.alone(attention, &paged((&qo[..1], &kv[..1])).batch()), qo[0]);
            let among = first(gpu.alone(attention, &paged((&qo, &kv)).batch()), qo[0]);
            assert!(alone == among, "request {request} of {qo:?}, {kv:?}");
        }
    }
    let mixed = paged((&[50, 0, 1], &[50, 9, 9]));
    let error = default.plan(&mixed.batch(), &[], None, None, &mut gpu.workspace()).expect_err("two kernel families");
    let CudaError::OtherKernel { request: 2, alone, runs } = &error else { panic!("{error}") };
    assert_eq!((alone.kind, runs.kind), (KernelKind::Decode, KernelKind::Prefill));
    let one = AttentionOptions {
        fixed_split_size: Some(256),
        kernel: Some(KernelKind::Prefill),
        ..AttentionOptions::default()
    };
    gpu.attention("causal", one)
        .plan(&mixed.batch(), &[], None, None, &mut gpu.workspace())
        .expect("one family for all");
}
