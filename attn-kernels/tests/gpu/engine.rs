//! Guarantees for serving engines: the caller's context stays current, the host may run ahead of the device, the engine
//! owns the workspace, one plan serves several layers, and runs over parts of the keys merge. Skipped without a GPU.
#![cfg(feature = "cuda")]
#![allow(missing_docs, clippy::print_stderr)] // a test

use std::{ffi::c_void, ptr};

use crate::gpu::{BatchArrays, Gpu, Lens, PAGE, device, floats};
use attn_core::batch::{BatchCapacity, BatchError, DeviceBatch, DevicePages, I32Slice, PageTableBuf};
use attn_core::expr::LayerError;
use attn_core::spec::{AttentionOptions, Heads, KernelKind};
use attn_core::state::{finalize, merge_state};
use attn_kernels::cuda::{CudaAttention, CudaBatchChecker, CudaBuffer, CudaError, CudaStream, CudaWorkspace};

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 64 };
const PAGES: u32 = 512;
/// Capacity of the tensors in queries.
const QUERIES: usize = 600;
/// Elements of a query token, over all heads.
const ROW: usize = 4 * 64;

fn find() -> Option<Gpu> {
    Gpu::find(HEADS, QUERIES, PAGES)
}

fn attention(gpu: &Gpu, expr: &str, kernel: Option<KernelKind>) -> CudaAttention {
    gpu.attention(expr, AttentionOptions { kernel, ..AttentionOptions::default() })
}

fn paged(lens: Lens<'_>) -> BatchArrays {
    BatchArrays::new(lens, PAGES, 0)
}

/// Context functions of the driver.
struct Contexts {
    library: libloading::Library,
}

impl Contexts {
    fn open() -> Self {
        let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
        // SAFETY: the driver's initialisers have no requirements.
        Contexts { library: unsafe { libloading::Library::new(name) }.expect("a device was found with it") }
    }

    fn current(&self) -> *mut c_void {
        let mut context = ptr::null_mut();
        // SAFETY: the signature is that of cuda.h, and the output is valid for writes.
        let code = unsafe {
            let get =
                self.library.get::<unsafe extern "C" fn(*mut *mut c_void) -> u32>(b"cuCtxGetCurrent").expect("old");
            get(&raw mut context)
        };
        assert_eq!(code, 0);
        context
    }

    /// Creates a context, which is current afterwards.
    fn make(&self) -> *mut c_void {
        type Create = unsafe extern "C" fn(*mut *mut c_void, u32, i32) -> u32;
        let mut context = ptr::null_mut();
        // SAFETY: as above; device 0 is there.
        let code = unsafe { self.library.get::<Create>(b"cuCtxCreate_v2").expect("old")(&raw mut context, 0, 0) };
        assert_eq!(code, 0);
        context
    }

    fn destroy(&self, context: *mut c_void) {
        // SAFETY: `make` created it, and nothing uses it any more.
        let code = unsafe {
            self.library.get::<unsafe extern "C" fn(*mut c_void) -> u32>(b"cuCtxDestroy_v2").expect("old")(context)
        };
        assert_eq!(code, 0);
    }
}

/// Makes all kinds of calls, after each of which the current context is the same.
fn use_everything(contexts: &Contexts, current: *mut c_void) {
    let same = |after: &str| assert_eq!(contexts.current(), current, "after {after}");
    let gpu = find().expect("there is one");
    same("making memory and a stream");
    let arrays = paged((&[1, 1], &[900, 40]));
    let capacity = BatchCapacity::decode(4, 4000).in_pages(PAGE, PAGES);
    let attention = attention(&gpu, "causal", None);
    same("binding");
    let mut workspace = gpu.workspace();
    let mut plan = attention.plan(&arrays.batch(), &[], Some(&capacity), None, &mut workspace).expect("sound");
    same("planning");
    plan.update(&gpu.stream, &arrays.batch()).expect("within");
    gpu.run(&plan).expect("runs");
    same("an update and a run");
    let capture = || {
        same("the begin of a capture");
        gpu.run(&plan)
    };
    let mut graph = gpu.stream.capture(capture).expect("captured");
    same("a capture");
    // SAFETY: everything lives as long.
    unsafe { graph.launch(&gpu.stream) }.expect("replayed");
    gpu.stream.synchronize().expect("ran");
    gpu.written(|| gpu.run(&plan));
    same("a replay and a copy");
    let event = attn_kernels::cuda::Event::new(&gpu.device).expect("an event");
    gpu.stream.record(&event).expect("recorded");
    event.synchronize().expect("there");
    drop((graph, plan, workspace, attention, event, gpu));
    same("dropping it all");
}

#[test]
fn the_context_of_a_caller_stays_current() {
    let Some(_device) = device() else { return };
    let contexts = Contexts::open();
    // new threads, in which no context is current
    std::thread::scope(|scope| {
        scope.spawn(|| use_everything(&contexts, ptr::null_mut()));
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let other = contexts.make();
            use_everything(&contexts, other);
            contexts.destroy(other);
        });
    });
}

/// The work list of a step may be written while the uploads of earlier steps are in flight or pending.
#[test]
fn updates_are_safe_while_the_host_runs_ahead() {
    const STEPS: usize = 24;
    let Some(gpu) = find() else { return };
    let attention = attention(&gpu, "causal", Some(KernelKind::Decode));
    // page tables of 150 kB: far more than the driver stages for a copy
    let lens = |step: usize| (0..512u32).map(|i| 1 + (i * 37 + step as u32 * 911) % 1200).collect::<Vec<_>>();
    let batches: Vec<_> = (0..STEPS).map(|step| paged((&[1; 512], &lens(step)))).collect();
    let want: Vec<_> = batches.iter().map(|arrays| gpu.alone(&attention, &arrays.batch())).collect();

    let capacity = BatchCapacity::decode(512, 512 * 1200).in_pages(PAGE, PAGES);
    let mut workspace = gpu.workspace();
    let mut plan = attention.plan(&batches[0].batch(), &[], Some(&capacity), None, &mut workspace).expect("within");
    let rows = QUERIES * ROW * 2;
    let mut outputs = CudaBuffer::new(&gpu.device, STEPS * rows).expect("memory");
    for _ in 0..3 {
        outputs.fill(&gpu.stream, 0xff).expect("fills");
        // some milliseconds of work, so that the device falls behind
        (0..200).for_each(|_| gpu.run(&plan).expect("runs"));
        for (step, arrays) in batches.iter().enumerate() {
            plan.update(&gpu.stream, &arrays.batch()).expect("within");
            let (q, kv, out) = gpu.tensors(QUERIES, outputs.ptr() + (step * rows) as u64);
            plan.run(&gpu.stream, q, kv, out, None, false).expect("runs");
        }
        let mut bytes = vec![0; outputs.len()];
        outputs.download(0, &mut bytes).expect("ran");
        for (step, (got, want)) in bytes.chunks_exact(rows).zip(&want).enumerate() {
            assert!(got == want, "step {step}");
        }
    }
}

#[test]
fn workspace_size_is_exact_and_needs_no_initialisation() {
    let Some(gpu) = find() else { return };
    let cases: [(Lens<'_>, KernelKind, BatchCapacity); 3] = [
        ((&[1; 3], &[4000, 3, 700]), KernelKind::Decode, BatchCapacity::decode(5, 6000)),
        ((&[100, 1, 99], &[1000, 1024, 99]), KernelKind::Prefill, BatchCapacity::new(3, 200, 4000)),
        ((&[1], &[8000]), KernelKind::Prefill, BatchCapacity::new(2, 64, 9000)),
    ];
    for (lens, kind, capacity) in cases {
        let capacity = capacity.in_pages(PAGE, PAGES);
        for expr in ["causal", "causal + union(sliding_window(window=70), full)", "causal + rope"] {
            let (attention, arrays) = (attention(&gpu, expr, Some(kind)), paged(lens));
            let far = attention.with_sm_scale(0.2).expect("positive");
            let want = gpu.alone(&attention, &arrays.batch());
            let (batch, layers, capacity) = (arrays.batch(), [&far], Some(&capacity));
            type Way<'a> = (&'a str, &'a [&'a CudaAttention], Option<&'a BatchCapacity>, Option<&'a CudaStream>);
            let ways: [Way<'_>; 5] = [
                ("alone", &[], None, None),
                ("on a stream", &[], None, Some(&gpu.stream)),
                ("for layers", &layers, None, None),
                ("with a capacity", &[], capacity, None),
                ("with all", &layers, capacity, Some(&gpu.stream)),
            ];
            for (name, layers, capacity, stream) in ways {
                let title = format!("{expr}, {kind}, {name}");
                let size = attention.workspace_size(&batch, layers, capacity).expect("sound");
                let make = |workspace: &mut CudaWorkspace| attention.plan(&batch, layers, capacity, stream, workspace);
                let mut fixed = CudaWorkspace::fixed(&gpu.device, size - 1).expect("memory");
                let error = make(&mut fixed).expect_err(&title);
                let refused =
                    matches!(error, CudaError::WorkspaceSize { need, have } if need == size && have == size - 1);
                assert!(refused && fixed.capacity() == size - 1, "{title}: {error}");
                let mut exact = CudaWorkspace::fixed(&gpu.device, size).expect("memory");
                let plan = make(&mut exact).expect(&title);
                assert!(gpu.written(|| gpu.run(&plan)) == want && exact.capacity() == size, "{title}");
                // memory that the engine owns: filled with NaN, then with the content of another plan
                let mut memory = CudaBuffer::new(&gpu.device, size).expect("memory");
                memory.fill(&gpu.stream, 0xff).expect("fills");
                gpu.stream.synchronize().expect("filled");
                for _ in 0..2 {
                    // SAFETY: the memory outlives the workspace, and nothing else uses it.
                    let mut dirty =
                        unsafe { CudaWorkspace::from_raw(&gpu.device, memory.ptr(), size) }.expect("aligned");
                    let plan = make(&mut dirty).expect(&title);
                    assert!(gpu.written(|| gpu.run(&plan)) == want, "{title}: dirty");
                }
            }
        }
    }
    // SAFETY: it is refused.
    let error = unsafe { CudaWorkspace::from_raw(&gpu.device, 0x1080, 4096) }.expect_err("half a line off");
    assert!(matches!(error, CudaError::WorkspaceAddress { ptr: 0x1080 }), "{error}");
}

#[test]
fn one_plan_runs_as_several_layers() {
    let Some(gpu) = find() else { return };
    for kind in [KernelKind::Decode, KernelKind::Prefill] {
        let near = attention(&gpu, "causal + sliding_window(window=300) + sink(logits=[0, 1, 2, 3])", Some(kind));
        let other = crate::stock::variant("causal + sliding_window(window=3000) + sink(logits=[3, -1, 0.5, 0])");
        let far = near.with_parameters(&other).expect("values");
        let sharp = near.with_sm_scale(0.5).expect("positive");
        let batches: [Lens<'_>; 2] = if kind == KernelKind::Decode {
            [(&[1; 3], &[4000, 64, 700]), (&[1; 3], &[3500, 5000, 1])]
        } else {
            [(&[64, 0, 90], &[3000, 0, 900]), (&[10, 20, 99], &[4000, 20, 1500])]
        };
        let capacity = BatchCapacity::new(3, 200, 9000).in_pages(PAGE, PAGES);
        let capacity = if kind == KernelKind::Decode { BatchCapacity { qo_len: 1, ..capacity } } else { capacity };
        let mut workspace = gpu.workspace();
        let first = paged(batches[0]);
        let mut plan = near.plan(&first.batch(), &[&far], Some(&capacity), None, &mut workspace).expect("within");
        let layers = [&near, &far, &sharp];
        let mut graphs = layers.map(|layer| gpu.stream.capture(|| gpu.run_with_layer(&plan, layer)).expect("captured"));
        for lens in batches {
            let arrays = paged(lens);
            plan.update(&gpu.stream, &arrays.batch()).expect("within");
            for (layer, graph) in layers.into_iter().zip(&mut graphs) {
                let run = gpu.written(|| gpu.run_with_layer(&plan, layer));
                // SAFETY: plan, workspace, layers and tensors live as long, and updates are on the same stream.
                assert!(run == gpu.written(|| unsafe { graph.launch(&gpu.stream) }), "{kind}: {lens:?}");
                let rows = *arrays.qo.last().expect("one at least") as usize * ROW;
                let (got, want) = (floats(&run), floats(&gpu.alone(layer, &arrays.batch())));
                let near = got.iter().zip(&want).take(rows).all(|(x, y)| (x - y).abs() <= 0.02 * (1.0 + y.abs()));
                assert!(near, "{kind}: {lens:?}");
                assert!(run[rows * 2..].iter().all(|&byte| byte == 0xff), "{kind}: rows of no request");
            }
        }
        let mut of_one = gpu.workspace();
        let plan = near.plan(&first.batch(), &[], None, None, &mut of_one).expect("sound");
        gpu.run_with_layer(&plan, &sharp).expect("sees the same keys");
        let error = gpu.run_with_layer(&plan, &far).expect_err("sees other keys");
        assert!(matches!(error, CudaError::Layer(LayerError::NotPlanned)), "{error}");
        let error = gpu.run_with_layer(&plan, &attention(&gpu, "causal", Some(kind))).expect_err("another");
        assert!(matches!(error, CudaError::Layer(LayerError::Unrelated)), "{error}");
    }
}

#[test]
fn runs_over_parts_of_the_keys_merge() {
    let Some(gpu) = find() else { return };
    let lens: [(Lens<'_>, [u32; 2], KernelKind); 2] = [
        ((&[1, 1], &[6000, 40]), [2000, 16], KernelKind::Decode),
        ((&[70, 9], &[5000, 48]), [64, 0], KernelKind::Prefill),
    ];
    for ((qo, kv), first, kind) in lens {
        for expr in [
            "full",
            "sink(logits=[0.5, -1, 2, 30])",
            "softpick + output_norm",
            "sink(logits=[9, 1, 2, 0]) + output_norm",
        ] {
            let attention = attention(&gpu, expr, Some(kind));
            let arrays = paged((qo, kv));
            // the pages of the first keys of each request, and those of the other keys
            let cut = |front: bool| {
                let pages = |r: usize| {
                    let all = arrays.table.indptr[r] as usize..arrays.table.indptr[r + 1] as usize;
                    let middle = all.start + (first[r] / PAGE) as usize;
                    if front { all.start..middle } else { middle..all.end }
                };
                let mut indices =
                    (0..2).flat_map(pages).map(|i| arrays.table.indices[i]).collect::<Vec<_>>().into_iter();
                let lens = [0, 1].map(|r| if front { first[r] } else { kv[r] - first[r] });
                let table = PageTableBuf::from_lens(&lens, PAGE, PAGES, || indices.next().expect("as many"));
                BatchArrays { qo: arrays.qo.clone(), kv: lens.map(|len| len as i32).to_vec(), table }
            };
            let states = |arrays: &BatchArrays, partial: bool| {
                let mut workspace = gpu.workspace();
                let plan = attention.plan(&arrays.batch(), &[], None, None, &mut workspace).expect("sound");
                let o = gpu.written(|| {
                    let (q, kv, out) = gpu.tensors(gpu.queries_of(&plan), gpu.o.ptr());
                    plan.run(&gpu.stream, q, kv, out, None, partial)
                });
                let mut lse = vec![0f32; QUERIES * 4];
                gpu.lse.download(0, bytemuck::cast_slice_mut(&mut lse)).expect("ran");
                (floats(&o), lse)
            };
            let (want, want_lse) = states(&arrays, false);
            let ((mut o, mut lse), (other, other_lse)) = (states(&cut(true), true), states(&cut(false), true));
            let layout = arrays.batch().validate().expect("sound");
            for request in 0..2 {
                for (query, head) in (0..layout.qo_len(request)).flat_map(|query| (0..4).map(move |head| (query, head)))
                {
                    let at = layout.row(HEADS, request, query, head);
                    let row = at.qo_token as usize * 4 + head;
                    let range = row * 64..(row + 1) * 64;
                    let merged = merge_state(&mut o[range.clone()], lse[row], &other[range.clone()], other_lse[row]);
                    lse[row] = finalize(attention.variant(), &mut o[range.clone()], merged, at);
                    assert!(
                        (lse[row] - want_lse[row]).abs() < 0.02,
                        "{expr}, {kind}: {} and {}",
                        lse[row],
                        want_lse[row]
                    );
                    for (x, y) in o[range.clone()].iter().zip(&want[range]) {
                        assert!((x - y).abs() < 0.03 * (1.0 + y.abs()), "{expr}, {kind}: {x} and {y}");
                    }
                }
            }
        }
    }
}

#[test]
fn padded_page_tables_are_planned_and_checked_on_the_device() {
    let Some(gpu) = find() else { return };
    let attention = attention(&gpu, "causal", Some(KernelKind::Decode));
    let capacity = BatchCapacity::decode(300, 300 * 1200).in_pages(PAGE, PAGES);
    let empty = paged((&[], &[]));
    let mut workspace = gpu.workspace();
    let mut plan = attention.plan(&empty.batch(), &[], Some(&capacity), None, &mut workspace).expect("within");
    let checker = CudaBatchChecker::new(&gpu.device).expect("compiles");
    checker.status(&gpu.stream).expect("nothing was checked");
    let upload = |ints: &[i32]| CudaBuffer::upload(&gpu.device, bytemuck::cast_slice(ints)).expect("memory");
    for lens in [&[40u32, 0, 1024, 16, 17][..], &[1], &(0..300).map(|i| i * 4 % 1201).collect::<Vec<_>>()] {
        let arrays = paged((&vec![1; lens.len()], lens));
        let max_pages = lens.iter().map(|len| len.div_ceil(PAGE) as usize).max().unwrap_or(0) + 1;
        let row =
            |r: usize| &arrays.table.indices[arrays.table.indptr[r] as usize..arrays.table.indptr[r + 1] as usize];
        let padded = (0..lens.len()).flat_map(|r| row(r).iter().copied().chain(std::iter::repeat(-7)).take(max_pages));
        let mut table: Vec<i32> = padded.collect();
        let (qo, kv) = (upload(&arrays.qo), upload(&lens.iter().map(|&len| len as i32).collect::<Vec<_>>()));
        let mut compare = |table: &[i32]| {
            let pages = upload(table);
            // SAFETY: the buffers hold as many, and live until the device was waited for.
            let ints = |buffer: &CudaBuffer| unsafe { I32Slice::device(buffer.ptr(), buffer.len() / 4) };
            let pages = DevicePages::Padded { indices: ints(&pages), max_pages };
            let batch = DeviceBatch::paged(ints(&qo), ints(&kv), pages);
            plan.update_on_device(&gpu.stream, &batch).expect("fits");
            checker.check(&gpu.stream, &batch, &capacity).expect("fits");
            let written = gpu.written(|| gpu.run(&plan));
            (written, plan.device_status(&gpu.stream), checker.status(&gpu.stream))
        };
        let (written, planned, checked) = compare(&table);
        planned.and(checked).expect("sound");
        assert!(written == gpu.alone(&attention, &arrays.batch()), "{} requests", lens.len());
        // no entry of a request without keys is read
        let request = lens.iter().position(|&len| len > 0).expect("keys");
        table[request * max_pages] = PAGES as i32;
        let (written, planned, checked) = compare(&table);
        assert!(written.iter().all(|&byte| byte == 0xff), "the work list is empty");
        let want = BatchError::BlockTablePage { request, index: 0, page: PAGES as i32, num_pages: PAGES };
        for found in [planned, checked] {
            assert!(matches!(&found, Err(CudaError::Batch(e)) if *e == want), "{found:?}");
        }
    }
}
