//! The planning kernel, compiled for the host. Its output must equal the plan that the host packs.

use std::{ffi::c_void, path::Path};

use attn_core::Variant;
use attn_core::batch::{BatchCapacity, BatchError, DeviceBatch, DevicePages, I32Slice, Layout};
use attn_core::plan::{ListRule, PlanCapacity, PlanError, PlanOffsets};
use attn_core::spec::Heads;
use attn_kernels::launch::{CascadePlanParams, MixedPlanParams, PlanParams, PlanStatus, PlannerScratch};
use attn_kernels::splice::variant::{Pointee, variant_args, variant_source};
use libloading::Library;

use crate::host::{library, templates, words};
use crate::simt::FIBERS;

/// The templates of all planner kernels.
const PLANNERS: [&str; 7] = [
    "lang/lang.cuh",
    "planner/check_batch.cuh",
    "planner/batch.cuh",
    "planner/split_batch.cuh",
    "planner/mixed_batch.cuh",
    "planner/cascade_batch.cuh",
    "planner/block_scan.cuh",
];

/// The planning kernel for the masks of a variant.
#[derive(Debug)]
pub struct HostPlanner {
    library: Library,
    variant: Vec<u64>,
    /// The tensors that the variant points to.
    _tables: Vec<Vec<u64>>,
}

/// Lengths and pages of a batch or of a level as device arrays.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Arrays {
    pub qo_indptr: Vec<i32>,
    pub kv_lens: Vec<i32>,
    pub page_indptr: Option<Vec<i32>>,
    /// Row stride of a padded page table, which has no `page_indptr`.
    pub page_stride: Option<usize>,
    pub page_indices: Vec<i32>,
    /// The levels before the requests' own keys, in a batch.
    pub levels: Vec<Arrays>,
}

/// Makes a slice of an array.
type Slice<'a> = fn(&'a [i32]) -> I32Slice<'a>;

impl Arrays {
    /// The arrays of a batch.
    pub fn of(layout: &Layout) -> Arrays {
        Arrays {
            qo_indptr: layout.qo_indptr().to_vec(),
            kv_lens: (0..layout.batch()).map(|request| layout.kv_len(request) as i32).collect(),
            page_indptr: layout.pages().map(|pages| pages.indptr().to_vec()),
            page_indices: layout.pages().map_or(Vec::new(), |pages| pages.indices().to_vec()),
            page_stride: None,
            levels: Vec::new(),
        }
    }

    /// The arrays as a level.
    pub fn level<'a>(&'a self, slice: Slice<'a>) -> DeviceBatch<'a> {
        let indices = slice(&self.page_indices);
        let pages = match (self.page_stride, &self.page_indptr) {
            (Some(max_pages), _) => Some(DevicePages::Padded { indices, max_pages }),
            (None, Some(indptr)) => Some(DevicePages::Compressed { indptr: slice(indptr), indices }),
            (None, None) => None,
        };
        DeviceBatch { pages, ..DeviceBatch::ragged(slice(&self.qo_indptr), slice(&self.kv_lens)) }
    }

    /// The levels before the requests' own keys.
    pub fn levels<'a>(&'a self, slice: Slice<'a>) -> Vec<DeviceBatch<'a>> {
        self.levels.iter().map(|level| level.level(slice)).collect()
    }

    /// The batch behind these levels.
    pub fn batch<'a>(&'a self, slice: Slice<'a>, levels: &'a [DeviceBatch<'a>]) -> DeviceBatch<'a> {
        self.level(slice).with_levels(levels)
    }

    /// The same batch with a padded page table. Its rows have `spare` entries more than the longest request needs, and
    /// the padding entries are no valid pages.
    pub fn padded(&self, spare: usize) -> Arrays {
        let ends = self.page_indptr.as_deref().unwrap_or(&[0]);
        let row = |ends: &[i32]| &self.page_indices[ends[0] as usize..ends[1] as usize];
        let stride = ends.windows(2).map(|ends| row(ends).len()).max().unwrap_or(0) + spare;
        let padded = |ends| row(ends).iter().copied().chain(std::iter::repeat(-7)).take(stride);
        let page_indices = ends.windows(2).flat_map(padded).collect();
        Arrays { page_indptr: None, page_stride: Some(stride), page_indices, ..self.clone() }
    }

    /// The kernel parameters for these arrays.
    fn params(&self, of: &PlanParams) -> PlanParams {
        let entries = self.page_indices.len() as i32;
        PlanParams {
            qo_indptr: self.qo_indptr.as_ptr() as u64,
            kv_lens: self.kv_lens.as_ptr() as u64,
            page_indptr: self.page_indptr.as_ref().map_or(0, |indptr| indptr.as_ptr() as u64),
            page_indices: self.page_indices.as_ptr() as u64,
            requests: self.qo_indptr.len() as i32 - 1,
            max_page_entries: match self.page_stride {
                Some(_) => of.max_page_entries,
                None => of.max_page_entries.min(entries),
            },
            page_stride: self.page_stride.map_or(-1, |stride| stride as i64),
            ..*of
        }
    }
}

/// An array as a device pointer.
fn on_device(array: &[i32]) -> I32Slice<'_> {
    // SAFETY: kernels run on the host, before the array is freed.
    unsafe { I32Slice::device(array.as_ptr() as u64, array.len()) }
}

/// A plan with a capacity, in memory of the host.
#[derive(Debug)]
pub struct HostPlan {
    of: BatchCapacity,
    /// The capacity.
    pub capacity: PlanCapacity,
    /// The offsets of its sections.
    pub offsets: PlanOffsets,
    /// The sections.
    pub lists: Vec<u64>,
    /// The status that the kernel writes.
    pub status: PlanStatus,
    params: MixedPlanParams,
    /// Of a capacity with levels.
    cascade: Option<CascadePlanParams>,
    is_mixed: bool,
    /// Bytes of scratch memory, without the order of items and of it, and of the tiles that other CTAs find.
    scratch: [usize; 3],
}

impl HostPlanner {
    /// Compiles the kernel in `folder`.
    ///
    /// # Panics
    /// The kernel does not compile.
    pub fn compile(variant: &Variant, folder: &Path) -> HostPlanner {
        HostPlanner::of(variant, "", folder)
    }

    /// Compiles what plans batches with levels by CTAs of 64 threads, and nothing else.
    ///
    /// # Panics
    /// The kernel does not compile.
    pub fn compile_levels(variant: &Variant, folder: &Path) -> HostPlanner {
        HostPlanner::of(variant, "#define ONLY_LEVELS\n", folder)
    }

    fn of(variant: &Variant, options: &str, folder: &Path) -> HostPlanner {
        let text = [
            options,
            FIBERS,
            include_str!("plan_harness.cpp"),
            &templates(&PLANNERS),
            &variant_source(variant).expect("the parts go together"),
            include_str!("plan_harness_main.cpp"),
        ];
        let library = library(folder, &text.concat());
        let mut tables = Vec::new();
        let bytes = variant_args(variant, |pointee| {
            let Pointee::Table(bytes) = pointee else { return Ok(0) };
            tables.push(words(bytes));
            Ok::<_, std::convert::Infallible>(tables.last().map_or(0, |table: &Vec<u64>| table.as_ptr() as u64))
        });
        let bytes = bytes.unwrap_or_else(|never| match never {});
        HostPlanner { library, variant: words(&bytes), _tables: tables }
    }

    /// Plans a batch, with the page table copied in `parts` parts.
    ///
    /// `seed` sets the order of the threads. A CTA has 1,024 threads if it is a multiple of 8, else 64, so that many
    /// batches have more requests than threads.
    pub fn plan(&self, plan: &mut HostPlan, batch: &Arrays, parts: i32, seed: u32) {
        let mut scratch = vec![0xa5a5_a5a5_a5a5_a5a5u64; plan.scratch.iter().sum::<usize>().div_ceil(8)];
        let [rest, order, found] = plan.scratch;
        let at = plan.lists.as_mut_ptr() as u64;
        let offsets = &plan.offsets;
        let base = PlanParams {
            to_qo_indptr: at + offsets.qo_indptr.start as u64,
            to_kv_indptr: at + offsets.kv_indptr.start as u64,
            to_page_indptr: at + offsets.page_indptr.start as u64,
            to_page_indices: at + offsets.page_indices.start as u64,
            workers: at + offsets.workers.start as u64,
            items: at + offsets.items.start as u64,
            merges: at + offsets.merges.start as u64,
            status: &raw mut plan.status as u64,
            scratch: scratch.as_mut_ptr() as u64,
            order: if seed.is_multiple_of(2) { 0 } else { scratch[rest / 8..].as_mut_ptr() as u64 },
            found: if found > 0 { scratch[(rest + order) / 8..].as_mut_ptr() as u64 } else { 0 },
            ..batch.params(&plan.params.base)
        };
        let params = MixedPlanParams {
            base,
            segments: at + offsets.segments.start as u64,
            segment_ends: at + offsets.segment_ends.start as u64,
            request_of_query: at + offsets.request_of_query.start as u64,
            merge_parts: at + offsets.merge_parts.start as u64,
            ..plan.params
        };
        let by_1024 = seed.is_multiple_of(8);
        if let (Some(of_levels), false) = (&plan.cascade, batch.levels.is_empty()) {
            let levels = batch.levels(on_device);
            let mut group_pages = vec![0x5a5a_5a5ai32; of_levels.capacity_groups as usize];
            let group_pages = group_pages.as_mut_ptr() as u64;
            let PlanParams { max_page_entries, .. } = plan.params.base;
            let base = MixedPlanParams { base: PlanParams { max_page_entries, ..params.base }, ..params };
            let of_levels = CascadePlanParams { base, group_pages, ..*of_levels };
            let batch = batch.batch(on_device, &levels);
            let params = of_levels.of_batch(&batch, &plan.of).expect("within the capacity");
            let name = if by_1024 { &b"plan_levels_by_1024"[..] } else { b"plan_levels" };
            return self.launch(name, &params, parts, seed);
        }
        // plan_harness_main.cpp defines them with this signature, or with the base of the parameters
        let name = match (plan.is_mixed, by_1024) {
            (false, true) => &b"plan_by_1024"[..],
            (false, false) => b"plan",
            (true, true) => b"plan_mixed_by_1024",
            (true, false) => b"plan_mixed",
        };
        self.launch(name, &params, parts, seed);
    }

    fn launch<Params>(&self, name: &[u8], params: &Params, parts: i32, seed: u32) {
        type Plan<Params> = unsafe extern "C" fn(*const Params, *const c_void, i32, u32);
        // SAFETY: the functions have this type.
        let function = unsafe { self.library.get::<Plan<Params>>(name) }.expect("the harness has it");
        // SAFETY: every array is as long as the parameters say, and lives until the call returns.
        unsafe { function(params, self.variant.as_ptr().cast(), parts, seed) }
    }

    /// Runs the kernel that only checks a batch.
    ///
    /// # Errors
    ///
    /// The batch is invalid.
    pub fn check(&self, capacity: &BatchCapacity, batch: &Arrays, seed: u32) -> Result<(), BatchError> {
        let mut status = PlanStatus { code: -1, ..PlanStatus::default() };
        let at = &raw mut status as u64;
        let params = PlanParams { status: at, ..batch.params(&PlanParams::for_checking(capacity)) };
        type Check = unsafe extern "C" fn(*const PlanParams, u32);
        let name = if seed.is_multiple_of(8) { &b"check_by_1024"[..] } else { b"check" };
        // SAFETY: both functions have this type.
        let function = unsafe { self.library.get::<Check>(name) }.expect("the harness has it");
        // SAFETY: every array is as long as the parameters say, and lives until the call returns.
        unsafe { function(&raw const params, seed) };
        status.check(&params)
    }
}

impl HostPlan {
    /// A plan whose sections hold garbage; the padding between them is zero.
    ///
    /// # Errors
    ///
    /// The capacity is too large for the kernel.
    pub fn new(
        capacity: &BatchCapacity,
        variant: &Variant,
        heads: Heads,
        rule: &ListRule,
    ) -> Result<HostPlan, PlanError> {
        let plan_capacity = PlanCapacity::of(capacity, variant, heads, rule)?;
        let (offsets, params) =
            (PlanOffsets::within(&plan_capacity), MixedPlanParams::new(capacity, &plan_capacity, rule, heads)?);
        let lists = vec![0u64; offsets.total / 8 + 1];
        let PlannerScratch { order, rest, found } = PlannerScratch::of(&plan_capacity, rule);
        let (status, mut scratch) = (PlanStatus::default(), [rest.next_multiple_of(8), order, found]);
        let mut cascade = None;
        if let (ListRule::Mixed(mixed), true) = (rule, plan_capacity.levels > 1) {
            cascade = Some(CascadePlanParams::new(capacity, &plan_capacity, mixed, heads)?);
            let PlannerScratch { order, rest, .. } = PlannerScratch::of_cascade(&plan_capacity, mixed);
            scratch = [scratch[0].max(rest), scratch[1].max(order), found];
        }
        let is_mixed = matches!(rule, ListRule::Mixed(_));
        let (of, capacity) = (*capacity, plan_capacity);
        let mut plan = HostPlan { of, capacity, offsets, lists, status, params, cascade, is_mixed, scratch };
        let of = plan.offsets.clone();
        for section in [
            of.qo_indptr,
            of.kv_indptr,
            of.page_indptr,
            of.request_of_query,
            of.segment_ends,
            of.segments,
            of.workers,
            of.items,
            of.merges,
            of.merge_parts,
            of.page_indices,
        ] {
            plan.bytes_mut()[section].fill(0xa5);
        }
        Ok(plan)
    }

    /// The bytes of all sections.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: any bytes of a word are bytes.
        unsafe { std::slice::from_raw_parts(self.lists.as_ptr().cast(), self.lists.len() * 8) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: any bytes are a word.
        unsafe { std::slice::from_raw_parts_mut(self.lists.as_mut_ptr().cast(), self.lists.len() * 8) }
    }

    /// The status of the last planned batch.
    ///
    /// # Errors
    ///
    /// The batch was invalid.
    pub fn check(&self) -> Result<(), BatchError> {
        self.status.check(&self.params.base)
    }
}
