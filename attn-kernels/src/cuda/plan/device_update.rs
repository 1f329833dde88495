//! Updates of a plan's batch by the device: it reads the lengths and builds the work list in the order of a stream.

use attn_core::batch::{BatchError, DeviceBatch};
use attn_core::plan::{ListRule, PlanOffsets, PlanRule, Schedule};
use bytemuck::Zeroable;

use super::capacity::{DevicePlanning, LevelPlanning};
use super::device_batch::check_addresses;
use crate::cuda::driver::launch_kernel::launch_kernel;
use crate::cuda::{CudaError, CudaPlan, CudaStream};
use crate::launch::{CascadePlanParams, MixedPlanParams, PLAN_STATUS_BYTES, PlanParams, PlanStatus, PlannerScratch};
use crate::splice::PlannerKind;

/// Page table entries that a thread of a copying CTA handles, while another CTA plans.
const PAGES_PER_THREAD: usize = 4;
/// The most CTAs that copy the page table and find tiles.
const MAX_OTHER_CTAS: u32 = 64;

impl CudaPlan {
    /// Updates the plan on the device, where [`CudaPlan::update`] plans on the host: one small launch reads the lengths
    /// and the page table of the batch from device memory, in the order of the stream, and writes the work list that
    /// the host would have written, bit for bit. It does not synchronise and may be captured together with runs: each
    /// replay then plans whatever the arrays hold at that time. The call fixes the number of requests; a request
    /// without queries is ignored. Tensors of runs have the rows of the capacity, or of the batch's bound of queries
    /// ([`DeviceBatch::with_qo_tokens`]) unless the update or the run is captured.
    ///
    /// The device cannot return an error. For a batch that is not sound or exceeds the capacity it writes an empty work
    /// list and a status code: runs launch and write nothing, and [`CudaPlan::device_status`] returns the error.
    ///
    /// The first call compiles and loads a kernel, which is not possible under a capture; call it, or
    /// [`CudaPlan::prepare_device_updates`], before the capture. What the host knows about the batch
    /// ([`CudaPlan::layout`], [`CudaPlan::counts`]) does not change.
    ///
    /// # Errors
    ///
    /// A plan without capacity, one that is stale, or one that only the host can update ([`CudaError::NotOnDevice`]);
    /// arrays in host memory, arrays that do not fit each other, or more requests than the capacity. Nothing is
    /// launched then.
    pub fn update_on_device(&mut self, stream: &CudaStream, batch: &DeviceBatch<'_>) -> Result<(), CudaError> {
        self.attention.device.check_same("stream", stream.device())?;
        if !self.is_current() {
            return Err(CudaError::StalePlan);
        }
        let capturing = stream.is_capturing()?;
        if capturing && self.reserved.as_deref().is_some_and(|reserved| reserved.on_device.is_none()) {
            stream.refuse_capture("load the kernel that plans")?;
        }
        self.prepare_device_updates()?;
        self.keep_captured(stream, None)?;
        let Some(reserved) = self.reserved.as_deref_mut() else { return Err(BatchError::NoCapacity.into()) };
        let Some(DevicePlanning { planner, params, other_ctas, threads, smem, levels }) = &reserved.on_device else {
            return Err(CudaError::StalePlan);
        };
        let params = MixedPlanParams { base: params.base.of_batch(batch, &reserved.capacity)?, ..*params };
        let of_levels = match (batch.levels, levels) {
            ([], _) => None,
            (_, None) => return Err(BatchError::LevelsInCapacity.into()),
            (_, Some(levels)) => Some((levels, levels.params.of_batch(batch, &reserved.capacity)?)),
        };
        check_addresses(batch)?;
        let largest = reserved.largest_within(batch.qo_tokens)?;
        let memory = self.workspace.lock()?;
        let _submission = stream.submission();
        memory.order(stream)?;
        let _current = self.attention.device.make_current()?;
        // there is one branch; the kernel takes a parameter even if the variant has none
        let args = &self.launches.branches[0].args;
        let _content = args.keep_content();
        args.order(stream)?;
        let variant = if args.bytes().is_empty() { &[0; 16][..] } else { args.bytes() };
        let grid = (other_ctas + 1, 1);
        // SAFETY: the caller promised the arrays of the batch when it made them; the kernel keeps to the capacity, for
        // which the sections of the workspace are large enough.
        unsafe {
            match &of_levels {
                None => launch_kernel(planner.function, grid, *threads, *smem, stream, &params, variant),
                Some((LevelPlanning { planner, threads, smem, .. }, params)) => {
                    launch_kernel(planner.function, grid, *threads, *smem, stream, params, variant)
                }
            }
        }?;
        drop(memory);
        if let Some(largest) = largest {
            reserved.on_device_largest = largest;
        }
        reserved.batch_is_on_device = true;
        reserved.is_captured_on_device |= capturing;
        Ok(())
    }

    /// Compiles and loads the kernel of [`CudaPlan::update_on_device`], unless it is loaded. The first update may then
    /// be captured.
    ///
    /// # Errors
    ///
    /// A plan without capacity, or that only the host can update; no kernel.
    pub fn prepare_device_updates(&mut self) -> Result<(), CudaError> {
        let Some(reserved) = self.reserved.as_deref_mut() else { return Err(BatchError::NoCapacity.into()) };
        if reserved.on_device.is_some() {
            return Ok(());
        }
        let attention = &self.attention;
        let not = |what| Err(CudaError::NotOnDevice { what });
        attention.check_device_updates()?;
        // the host sees no batch, so tensors must have room for the largest one
        attention.check_capacity(&reserved.capacity)?;
        if !self.layers.is_empty() {
            return not("layers that see different keys");
        }
        let (rule, counts) = (&reserved.rule, &reserved.counts);
        let selector = &attention.selector;
        let lengths = [1, reserved.capacity.qo_len as usize];
        let [one, most] = lengths.map(|qo_len| selector.select_for_length(qo_len));
        let fixed_split =
            |rule: &ListRule| matches!(rule, ListRule::Flat(PlanRule { schedule: Schedule::FixedSplit { .. }, .. }));
        if fixed_split(rule) && one != most {
            return not("a batch-invariant attention, where requests within the capacity run other kernels if alone");
        }
        let heads = attention.heads;
        let params = MixedPlanParams::new(&reserved.capacity, counts, rule, heads)?;
        let kind = PlannerKind::from(rule);
        let (planner, memory, threads) = (attention.planner(kind)?, PlannerScratch::of(counts, rule), kind.threads());
        let sections = &self.workspace.sections;
        let lists = &sections.lists;
        let PlanOffsets { qo_indptr, kv_indptr, page_indptr, page_indices, items, merges, workers, .. } = lists;
        let at = |section| self.workspace.start(section);
        let status = at(&sections.planning);
        let behind_status = status + PLAN_STATUS_BYTES as u64;
        let [scratch, order, found] = memory.addresses(behind_status);
        let base = PlanParams {
            to_qo_indptr: at(qo_indptr),
            to_kv_indptr: at(kv_indptr),
            to_page_indptr: at(page_indptr),
            to_page_indices: at(page_indices),
            workers: at(workers),
            items: at(items),
            merges: at(merges),
            status,
            scratch,
            order,
            found,
            ..params.base
        };
        let params = MixedPlanParams {
            base,
            segments: at(&lists.segments),
            segment_ends: at(&lists.segment_ends),
            request_of_query: at(&lists.request_of_query),
            merge_parts: at(&lists.merge_parts),
            ..params
        };
        let most = attention.device.multiprocessors().saturating_sub(1).clamp(1, MAX_OTHER_CTAS);
        let pages_per_cta = PAGES_PER_THREAD * threads as usize;
        let page_ctas = counts.pages.map_or(0, |pages| pages.div_ceil(pages_per_cta).max(1));
        let other_ctas = (page_ctas.max(memory.tile_ctas()) as u32).min(most);
        // no more than `PLAN_SHARED_BYTES`
        let smem = |memory: PlannerScratch| memory.shared_and_workspace().0 as u32;
        let levels = match rule {
            ListRule::Mixed(mixed) if counts.levels > 1 => {
                let (kind, memory) = (PlannerKind::Cascade, PlannerScratch::of_cascade(counts, mixed));
                let [scratch, order, _] = memory.addresses(behind_status);
                let base = MixedPlanParams { base: PlanParams { scratch, order, ..params.base }, ..params };
                let group_pages = behind_status + PlannerScratch::workspace_bytes(counts, rule)[0] as u64;
                let params = CascadePlanParams::new(&reserved.capacity, counts, mixed, heads)?;
                Some(LevelPlanning {
                    planner: attention.planner(kind)?,
                    params: CascadePlanParams { base, group_pages, ..params },
                    threads: kind.threads(),
                    smem: smem(memory),
                })
            }
            _ => None,
        };
        reserved.on_device = Some(DevicePlanning { planner, params, other_ctas, threads, smem: smem(memory), levels });
        Ok(())
    }

    /// Returns the error of the batch that the device planned last, if it had one. Waits for all work of the device.
    ///
    /// # Errors
    ///
    /// The [`BatchError`] that [`CudaPlan::update`] returns for the same batch; runs write nothing after it; a plan
    /// that is stale or without capacity; a stream that is being captured; a failure of the driver.
    pub fn device_status(&self, stream: &CudaStream) -> Result<(), CudaError> {
        self.attention.device.check_same("stream", stream.device())?;
        if !self.is_current() {
            return Err(CudaError::StalePlan);
        }
        stream.refuse_capture("wait for what a plan says")?;
        let Some(reserved) = self.reserved.as_deref() else { return Err(BatchError::NoCapacity.into()) };
        let Some(DevicePlanning { params, .. }) = &reserved.on_device else { return Ok(()) };
        let mut status = PlanStatus::zeroed();
        self.workspace.download(self.workspace.sections.planning.start, bytemuck::bytes_of_mut(&mut status))?;
        let max_qo_tokens = reserved.on_device_largest.qo_tokens() as i32;
        Ok(status.check(&PlanParams { max_qo_tokens, ..params.base })?)
    }

    /// Copies the work list from the workspace; [`PlanOffsets`] describes it. Waits for all work of the device.
    ///
    /// # Errors
    ///
    /// A plan that is stale; a failure of the driver.
    pub fn read_lists(&self) -> Result<(PlanOffsets, Vec<u8>), CudaError> {
        if !self.is_current() {
            return Err(CudaError::StalePlan);
        }
        let offsets = self.workspace.sections.lists.clone();
        let mut bytes = vec![0; offsets.total];
        self.workspace.download(0, &mut bytes)?;
        Ok((offsets, bytes))
    }
}
