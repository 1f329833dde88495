//! Runs kernels on the host over the inputs of a case.

use std::{ffi::c_void, mem::size_of, ops::Range};

use attn_core::{
    batch::{KvSegment, Layout},
    dtype::Dtype,
    expr::Variant,
    lang::F8E4M3,
    plan::{
        ListRule, MergeItem, PartCapacity, PartialBytes, PlanBlob, PlanCapacity, PlanOffsets, PlanRule, PlanScratch,
        Schedule, WorkItem, WorkList, WorkPart, WorkerStart,
    },
    spec::PrefillBackend,
};
use attn_kernels::{
    cost::{CostTable, HookClass},
    kernel_traits::{KernelTraits, RESIDENT_Q_TILES, resident_tile_rows},
    launch::{
        FastDiv, KernelParams, KvSides, MixedParams, PackedMixedParams, PackedParams, Sm90Params, Strided, Waves,
        merge_grid,
    },
    plan_rules::list_rule,
};
use attn_testing::{Case, Host, HostScale, HostTensor, Inputs};

use super::{judge::Judged, kernel::HostKernel, sm90};
use crate::host::{HostArgs, words};

/// Runs the kernels of a case's branches, and compares the result with the reference. Also returns the most partials
/// of a row.
pub(super) fn run(case: &Case, variant: &Variant, kernels: &[HostKernel], ctas: u32, seed: u32) -> (Judged, u32) {
    let Ran { inputs, o, lse, most_partials, .. } = ran(case, variant, kernels, ctas, seed);
    (Judged::of(case, variant, &inputs, kernels[0].traits.facts().rounding, (&o, &lse)), most_partials)
}

/// Runs the kernels of a case's branches, and returns the bits of outputs, as f32, and of log-sum-exps.
pub(super) fn bits(
    case: &Case,
    variant: &Variant,
    kernels: &[HostKernel],
    ctas: u32,
    seed: u32,
) -> (Vec<u32>, Vec<u32>) {
    let Ran { o, lse, .. } = ran(case, variant, kernels, ctas, seed);
    let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect();
    (bits(o), bits(lse))
}

/// The inputs and results of a run.
pub(super) struct Ran {
    pub(super) inputs: Inputs,
    pub(super) o: Vec<f32>,
    pub(super) lse: Vec<f32>,
    /// What the preprocessing kernel wrote of values, behind which all bits are set.
    pub(super) values: Vec<u64>,
    /// The most partials that are merged into a row.
    most_partials: u32,
}

/// Runs the kernels.
pub(super) fn ran(case: &Case, variant: &Variant, kernels: &[HostKernel], ctas: u32, seed: u32) -> Ran {
    ran_over(Inputs::new(case, false).expect("a valid case"), case, variant, kernels, ctas, seed)
}

/// Runs the kernels over inputs of the case.
pub(super) fn ran_over(
    inputs: Inputs,
    case: &Case,
    variant: &Variant,
    kernels: &[HostKernel],
    ctas: u32,
    seed: u32,
) -> Ran {
    let levels = inputs.levels();
    let layout = inputs.batch(&levels).validate().expect("a valid batch");
    let mut work = WorkList::default();
    let rule = rule(case, variant, kernels, ctas);
    work.rebuild_for(&mut PlanScratch::default(), variant, &[], &layout, case.heads(), &rule).expect("a plan");
    let mut blob = PlanBlob::pack(&layout, &work);
    if case.graph {
        blob.repack_within(&with_room(&layout, &work, &blob.offsets), &layout, &work).expect("there is room");
    }
    let merges = blob.offsets.merges.len() / size_of::<MergeItem>();
    let mut memory = Memory::new(case, &inputs, &layout, &work, &kernels[0].traits);
    let run = Run {
        case,
        inputs: &inputs,
        layout: &layout,
        lists: words(&blob.bytes),
        offsets: blob.offsets,
        written: memory.addresses(),
        seed,
        ctas,
    };
    match kernels {
        [kernel] if kernel.is_mixed() => run.mixed(kernel, merges),
        _ => {
            kernels.iter().enumerate().for_each(|(number, kernel)| run.branch(kernel, number));
            run.merge(&kernels[0], &run.with_sides(run.params(&kernels[0])), merges);
        }
    }
    assert!(memory.semaphores.iter().all(|&count| count == 0), "{}: a counter is not reset", case.title());
    let (o, lse) = memory.result(inputs.o_shape().iter().product());
    let lse = lse.to_vec();
    drop(levels);
    let most_partials = work.merges.iter().map(|merge| merge.count.cast_unsigned()).max().unwrap_or(0);
    Ran { inputs, o, lse, values: memory.v_pre, most_partials }
}

/// The capacity of a captured launch, which has CTAs for more items and merges than there are.
fn with_room(layout: &Layout, work: &WorkList, packed: &PlanOffsets) -> PlanCapacity {
    let part = |part: &WorkPart| {
        // a worker ends where the next one begins; the prefill part of a mixed list has none
        let workers = part.workers.len().checked_sub(1).map_or(0, |workers| workers + 1);
        PartCapacity { items: part.items.len() + 3, workers }
    };
    PlanCapacity {
        requests: layout.batch(),
        levels: layout.level_count(),
        queries: if layout.has_levels() { layout.qo_tokens() } else { 0 },
        segments: packed.segments.len() / size_of::<KvSegment>(),
        pages: layout.pages().map(|pages| pages.indices().len()),
        parts: work.parts.iter().map(part).collect(),
        merges: work.merges.len() + 2,
        merge_parts: work.merge_parts.len() + 1,
        partial_rows: work.partial_rows as usize,
    }
}

fn rule(case: &Case, variant: &Variant, kernels: &[HostKernel], ctas: u32) -> ListRule {
    let (traits, kv_heads, hooks) = (&kernels[0].traits, case.kv_heads, HookClass::of(variant));
    let costs = CostTable::default();
    let step_keys = kernels.iter().map(|kernel| kernel.traits.step_keys()).max().unwrap_or(1);
    let rule = match list_rule(traits, &costs, hooks, step_keys, ctas, ctas / traits.facts().ctas_per_sm, kv_heads) {
        ListRule::Flat(rule) => rule,
        mixed @ ListRule::Mixed(_) => return mixed,
    };
    let schedule = case.fixed_split_size.map_or(rule.schedule, |keys| Schedule::FixedSplit { keys });
    let rule = PlanRule { schedule, ..rule };
    if traits.facts().special != Some(PrefillBackend::Sm90Resident) {
        return ListRule::Flat(rule);
    }
    // any number of Q tiles gives the same result
    let q_tiles = case.seed as u32 % RESIDENT_Q_TILES + 1;
    ListRule::Flat(PlanRule { tile_rows: q_tiles * resident_tile_rows(case.heads().group()), workers: 1, ..rule })
}

/// What kernels write. Everything is NaN at first.
struct Memory {
    dtype: Dtype,
    o: Vec<u64>,
    o_scale: HostScale,
    lse: Vec<f32>,
    partial_o: Vec<f32>,
    partial_md: Vec<f32>,
    /// Preprocessed keys and values.
    k_pre: Vec<u64>,
    v_pre: Vec<u64>,
    semaphores: Vec<u32>,
}

impl Memory {
    fn new(case: &Case, inputs: &Inputs, layout: &Layout, work: &WorkList, traits: &KernelTraits) -> Memory {
        let keys = layout.preprocessed_keys() as usize;
        let [tokens, heads, value_dim] = inputs.o_shape();
        let dtype = case.dtypes().expect("known types").output();
        let partial = PartialBytes::of(work.partial_rows as usize, case.kv_heads, value_dim as u32).expect("few");
        let nan = |bytes: u64| vec![f32::NAN; bytes as usize / 4];
        // transposed values begin a tile for each request
        let most = keys + 128 * layout.batch();
        let preprocessed = |dim: usize| vec![u64::MAX; (most * case.kv_heads as usize * dim * 2).div_ceil(8)];
        Memory {
            dtype,
            o_scale: case.o_scale(),
            // all bits set are NaN in every type
            o: vec![u64::MAX; (tokens * heads * value_dim * dtype.size()).div_ceil(8)],
            lse: vec![f32::NAN; tokens * heads],
            partial_o: nan(partial.o),
            partial_md: nan(partial.md),
            k_pre: preprocessed(case.head_dim as usize),
            v_pre: preprocessed(value_dim),
            // sm_90 prefill has two counters there
            semaphores: vec![0; ((work.partial_rows / traits.facts().tile_rows * case.kv_heads) as usize).max(2)],
        }
    }

    fn addresses(&mut self) -> Written {
        Written {
            o: self.o.as_mut_ptr() as u64,
            o_scale: self.o_scale.all,
            o_scales: self.o_scale.heads.as_ref().map_or(0, |heads| heads.as_ptr() as u64),
            lse: self.lse.as_mut_ptr() as u64,
            partial_o: self.partial_o.as_mut_ptr() as u64,
            partial_md: self.partial_md.as_mut_ptr() as u64,
            k_pre: self.k_pre.as_mut_ptr() as u64,
            v_pre: self.v_pre.as_mut_ptr() as u64,
            semaphores: self.semaphores.as_mut_ptr() as u64,
        }
    }

    /// The output, and the log-sum-exps.
    fn result(&self, elements: usize) -> (Vec<f32>, &[f32]) {
        let o: Vec<f32> = match self.dtype {
            Dtype::F32 => bytemuck::cast_slice(&self.o).to_vec(),
            Dtype::F16 => bytemuck::cast_slice(&self.o).iter().map(|x: &half::f16| x.to_f32()).collect(),
            Dtype::E4m3 => bytemuck::cast_slice(&self.o).iter().map(|x: &F8E4M3| x.to_f32()).collect(),
            _ => bytemuck::cast_slice(&self.o).iter().map(|x: &half::bf16| x.to_f32()).collect(),
        };
        (self.o_scale.times(o[..elements].to_vec()), &self.lse)
    }
}

/// The addresses of [`Memory`].
struct Written {
    o: u64,
    o_scale: f32,
    o_scales: u64,
    lse: u64,
    partial_o: u64,
    partial_md: u64,
    k_pre: u64,
    v_pre: u64,
    semaphores: u64,
}

struct Run<'a> {
    case: &'a Case,
    inputs: &'a Inputs,
    layout: &'a Layout,
    lists: Vec<u64>,
    offsets: PlanOffsets,
    written: Written,
    seed: u32,
    ctas: u32,
}

impl Run<'_> {
    /// Runs the kernels of a branch over its part of the work list.
    fn branch(&self, kernel: &HostKernel, number: usize) {
        let (params, traits, kv_heads) = (self.params(kernel), &kernel.traits, self.case.kv_heads);
        let part = &self.offsets.parts[number];
        let (params, grid) = if traits.facts().has_workers {
            let workers = params.workers + (part.workers.start * size_of::<WorkerStart>()) as u64;
            (KernelParams { workers, ..params }, [part.workers.len() as u32 * kv_heads, 1])
        } else {
            let items = params.items + (part.items.start * size_of::<WorkItem>()) as u64;
            (KernelParams { items, ..params }, [part.items.len() as u32, kv_heads])
        };
        self.preprocess(kernel, &self.with_sides(params));
        if traits.is_sm90_prefill() {
            let params = self.with_sides(KernelParams { k: traits.in_pairs(params.k), ..params });
            let items = part.items.len() as u32;
            let ctas = (items * kv_heads).min(self.ctas) * traits.facts().cluster_ctas;
            self.launch_sm90(kernel, (&params, &params.base), items, ctas);
        } else {
            self.launch(kernel, "launch_main", &self.with_sides(params), grid);
        }
    }

    /// The parameters of kernels over rows of KV formats; others take the first part.
    fn with_sides(&self, base: KernelParams) -> PackedParams {
        let of = |side: &Option<HostTensor>| {
            side.as_ref().map_or(Strided::default(), |side| strided(&side.host, &side.strides))
        };
        let [k, v] = self.inputs.sides.each_ref().map(of);
        // values that are the first elements of keys have the side data of the keys
        let v = if self.case.head_dim_vo.shares_keys() { k } else { v };
        PackedParams { base, sides: KvSides { k, v } }
    }

    /// Runs a persistent kernel with sm_90 prefill of a number of items. Its parameters are `params`, which begin with
    /// `base`.
    fn launch_sm90<P>(&self, kernel: &HostKernel, (params, base): (&P, &KernelParams), items: u32, ctas: u32) {
        type Launch = unsafe extern "C" fn(*const c_void, *const c_void, *const Sm90Params, i32, i32, u32);
        let arguments = HostArgs::of(&kernel.variant);
        let sm90 = sm90::params(self.case, self.inputs, self.layout, &kernel.traits, base, items);
        // SAFETY: simt/launch.cpp defines it with this type.
        let function = unsafe { kernel.library.get::<Launch>(b"launch_main") }.expect("the text defines it");
        let params = std::ptr::from_ref(params).cast();
        // SAFETY: every array is as long as the batch and its work list say, and lives until the call returns.
        unsafe { function(params, arguments.as_ptr(), &raw const sm90, ctas as i32, 1, self.seed) }
    }

    fn preprocess<P>(&self, kernel: &HostKernel, params: &P) {
        let traits = &kernel.traits;
        if traits.has_kv_preprocess() {
            let (keys, requests) = (self.layout.preprocessed_keys() as u32, self.layout.batch() as u32);
            let grid = traits.kv_preprocess_grid(keys, requests, self.case.kv_heads);
            self.launch(kernel, "launch_kv_preprocess", params, grid);
        }
    }

    /// Merges the partial states of all branches, where the main kernel does not.
    fn merge<P>(&self, kernel: &HostKernel, params: &P, merges: usize) {
        if !kernel.traits.facts().has_workers {
            let multiprocessors = self.ctas / kernel.traits.facts().ctas_per_sm;
            let [merges, ctas] = merge_grid(&kernel.traits, merges as u32, self.case.heads(), multiprocessors);
            // any number of CTAs gives the same result: with two each has its rows, and more of them than teams
            self.launch(kernel, "launch_merge", params, [merges, ctas.min(2)]);
        }
    }

    /// Runs a mixed kernel and its merges.
    fn mixed(&self, kernel: &HostKernel, merges: usize) {
        let base = self.params(kernel);
        let (offsets, kv_heads) = (&self.offsets, self.case.kv_heads);
        let [decode, prefill] = &offsets.parts[..] else { panic!("a mixed list has two parts") };
        let (decodes, items) = (decode.workers.len() as u32 * kv_heads, prefill.items.len() as u32);
        let ctas = decodes + items * kv_heads;
        let multiprocessors = self.ctas / kernel.traits.facts().ctas_per_sm;
        let waves = Waves { decodes, ctas, wave: self.ctas, multiprocessors };
        let params = MixedParams {
            base,
            prefill: base.items + (prefill.items.start * size_of::<WorkItem>()) as u64,
            merge_parts: self.section(&offsets.merge_parts),
            request_of_query: self.section(&offsets.request_of_query),
            segment_ends: self.section(&offsets.segment_ends),
            segments: self.section(&offsets.segments),
            decode_ctas: decodes as i32,
            prefill_items: items as i32,
            segment_count: (offsets.segments.len() / size_of::<KvSegment>()) as i32,
            wave: self.ctas as i32,
            wave_decodes: waves.decode_ctas_per_wave() as i32,
            pad: 0,
        };
        let params = PackedMixedParams { base: params, sides: self.with_sides(base).sides };
        if items > 0 {
            self.preprocess(kernel, &params);
        }
        if kernel.traits.is_sm90_prefill() {
            self.launch_sm90(kernel, (&params, &base), items, ctas.min(self.ctas).max(decodes));
        } else {
            self.launch(kernel, "launch_main", &params, [ctas, 1]);
        }
        self.merge(kernel, &params, merges);
    }

    fn launch<P>(&self, kernel: &HostKernel, name: &str, params: &P, grid: [u32; 2]) {
        type Launch = unsafe extern "C" fn(*const c_void, *const c_void, i32, i32, u32);
        let arguments = HostArgs::of(&kernel.variant);
        // SAFETY: simt/launch.cpp defines all of them with this type.
        let function = unsafe { kernel.library.get::<Launch>(name.as_bytes()) }.expect("the text defines it");
        let params = std::ptr::from_ref(params).cast();
        // SAFETY: every array is as long as the batch and its work list say, and lives until the call returns.
        unsafe { function(params, arguments.as_ptr(), grid[0] as i32, grid[1] as i32, self.seed) }
    }

    /// The address of a section of the work list; null if it is empty.
    fn section(&self, section: &Range<usize>) -> u64 {
        if section.is_empty() { 0 } else { self.lists.as_ptr() as u64 + section.start as u64 }
    }

    fn params(&self, kernel: &HostKernel) -> KernelParams {
        let HostKernel { variant, traits, .. } = kernel;
        let Run { case, inputs, layout, written, .. } = self;
        let (heads, offsets) = (case.heads(), &self.offsets);
        let [_, qo_heads, value_dim] = inputs.o_shape();
        let scales = |scale: &HostScale| scale.heads.as_ref().map_or(0, |heads| heads.as_ptr() as u64);
        KernelParams {
            // tensors without pages have scales of e4m3 there
            q: Strided {
                page: i64::from(inputs.q_scale.all.to_bits()) << 32 | i64::from(written.o_scale.to_bits()),
                ..packed(inputs.stored_q().bytes().as_ptr() as u64, qo_heads, case.head_dim as usize)
            },
            k: strided(&inputs.k, &inputs.kv_strides),
            v: strided(&inputs.v, &inputs.v_strides),
            o: Strided { page: written.o_scales as i64, ..packed(written.o, qo_heads, value_dim) },
            k_pre: Strided {
                page: scales(&inputs.q_scale) as i64,
                ..packed(written.k_pre, heads.kv as usize, case.head_dim as usize)
            },
            v_pre: {
                let (keys, requests) = (layout.preprocessed_keys() as u64, layout.batch() as u64);
                traits.preprocessed_values(written.v_pre, keys, requests, heads.kv)
            },
            lse: written.lse,
            lse_token: qo_heads as i64,
            lse_head: 1,
            k_scales: scales(&inputs.k_scale),
            v_scales: scales(&inputs.v_scale),
            qo_indptr: self.section(&offsets.qo_indptr),
            kv_indptr: self.section(&offsets.kv_indptr),
            page_indptr: self.section(&offsets.page_indptr),
            page_indices: self.section(&offsets.page_indices),
            items: self.section(&offsets.items),
            merges: self.section(&offsets.merges),
            workers: self.section(&offsets.workers),
            split_semaphores: written.semaphores,
            partial_o: written.partial_o,
            partial_md: written.partial_md,
            group: FastDiv::new(heads.group()),
            page_size: FastDiv::new(layout.pages().map_or(1, |pages| pages.page_size())),
            list_block: variant.kv_list_sizes().map(|(block, _)| FastDiv::new(block as u32)).unwrap_or_default(),
            batch: layout.batch() as i32,
            kv_heads: heads.kv as i32,
            sm_scale: case.sm_scale.unwrap_or_else(|| heads.default_sm_scale()),
            k_scale: inputs.k_scale.all,
            v_scale: inputs.v_scale.all,
            partial_output: case.partial.into(),
            ..KernelParams::default()
        }
    }
}

/// A packed tensor of shape (tokens, heads, dim).
fn packed(data: u64, heads: usize, dim: usize) -> Strided {
    Strided { data, token: (heads * dim) as i64, head: dim as i64, page: 0 }
}

fn strided(tensor: &Host, strides: &[i64]) -> Strided {
    let rank = strides.len();
    let page = if rank == 4 { strides[0] } else { 0 };
    Strided { data: tensor.bytes().as_ptr() as u64, token: strides[rank - 3], head: strides[rank - 2], page }
}
