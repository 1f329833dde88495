//! Plans that are given other batches by the device itself: lengths are read, and work is cut, where the run is, in its order.

use std::{
    ffi::{CStr, CString, c_void},
    sync::Arc,
};

use attn_core::{
    batch::{BatchError, DeviceBatch, Ints},
    lang::Hook,
    plan::{self, PlanOffsets},
    spec::KernelKind,
};
use bytemuck::Zeroable;
use cudarc::driver::{
    result::{function, module},
    sys::{self, CUfunction, CUfunction_attribute as Attribute, CUmodule},
};

use super::{
    CudaError, Device, Plan, Stream,
    run::launch,
    work::{Counts, Rule},
};
use crate::{
    jit,
    launch::{PLAN_SHARED_BYTES, PLAN_STATUS_BYTES, PlanParams, PlanStatus},
    splice::PlannerSource,
};

/// Threads of a CTA: `PLAN_THREADS` of cuda/planner/kernel.cuh.
const THREADS: u32 = 1024;
/// Entries of the page table that a CTA copies while another plans: four loads of each thread.
const ENTRIES: usize = 4 * THREADS as usize;
/// The most CTAs that copy.
const MOST_PARTS: u32 = 64;

/// The kernel that plans, loaded.
#[derive(Debug)]
pub(super) struct Planner {
    device: Device,
    module: CUmodule,
    pub(super) function: CUfunction,
}

// SAFETY: the driver allows modules and functions in any thread in which their context is current, which every call sees to.
unsafe impl Send for Planner {}
// SAFETY: as above; nothing is changed after loading.
unsafe impl Sync for Planner {}

impl Planner {
    /// The kernel of that name.
    pub(super) fn load(device: &Device, ready: &jit::Ready<PlannerSource>, kernel: &CStr) -> Result<Self, CudaError> {
        let _current = device.make_current()?;
        let name = &ready.source.name;
        if PLAN_SHARED_BYTES as u32 > device.max_smem() {
            let (need, have) = (PLAN_SHARED_BYTES as u32, device.max_smem());
            return Err(CudaError::SharedMemory { kernel: name.clone(), need, have });
        }
        let fail = |e| CudaError::driver(format!("load `{name}`"), e);
        // an embedded image lies anywhere; the driver reads it as the words of an ELF file
        let cubin = &ready.compiled.cubin;
        let mut image = vec![0u64; cubin.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut image)[..cubin.len()].copy_from_slice(cubin);
        // SAFETY: the image is a whole cubin: from a compiler, or checksummed by the cache.
        let module = unsafe { module::load_data(image.as_ptr().cast::<c_void>()) }.map_err(fail)?;
        let mut planner = Planner { device: device.clone(), module, function: std::ptr::null_mut() };
        // SAFETY: the module is loaded.
        planner.function = unsafe { module::get_function(module, CString::from(kernel)) }.map_err(fail)?;
        // as decode does, so that an SM need not change what it has between the two
        let carveout = sys::CUshared_carveout_enum::CU_SHAREDMEM_CARVEOUT_MAX_SHARED as i32;
        let attributes = [
            (Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, PLAN_SHARED_BYTES as i32),
            (Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, carveout),
        ];
        for (attribute, value) in attributes {
            // SAFETY: the function belongs to the module.
            unsafe { function::set_function_attribute(planner.function, attribute, value) }.map_err(fail)?;
        }
        Ok(planner)
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        // launches may be under way; a device in error cannot be waited for, and runs nothing either
        let _ = self.device.synchronize();
        if let Ok(_current) = self.device.make_current() {
            // SAFETY: loaded by `load`, unloaded once.
            let _ = unsafe { module::unload(self.module) };
        }
    }
}

/// What a plan needs in order to be planned by the device.
#[derive(Debug)]
pub(super) struct OnDevice {
    planner: Arc<Planner>,
    /// All but the batch.
    params: PlanParams,
    /// CTAs that copy pages.
    parts: u32,
}

impl Plan {
    /// As [`Plan::update`], by the device: one small launch reads the lengths and pages of the batch from memory of the device, when the stream gets there,
    /// and writes the list that the host would have written, to the bit. It waits for nothing, and may be captured together with runs: each
    /// replay then plans anew, whatever the arrays hold by then. How many requests there are is fixed by the call; a request without queries is nothing.
    ///
    /// A batch that is not sound, or past the capacity, leaves nothing to do: runs launch, and write nothing. [`Plan::device_status`] says what was
    /// wrong.
    ///
    /// The first call compiles and loads a kernel; under a capture that cannot be, so call it, or [`Plan::prepare_device_updates`], before. What is known of the
    /// batch on the host ([`Plan::layout`], [`Plan::counts`]) stays what it was.
    ///
    /// # Errors
    ///
    /// A plan without capacity or that is stale, or one that only the host can update ([`CudaError::NotOnDevice`]); arrays that are in host memory, that do not
    /// go together, or of more requests than there is room for. Nothing is launched then.
    pub fn update_on_device(&mut self, stream: &Stream, batch: &DeviceBatch<'_>) -> Result<(), CudaError> {
        self.attention.inner.device.check_same("stream", stream.device())?;
        if !self.is_current() {
            return Err(CudaError::StalePlan);
        }
        let capturing = stream.is_capturing()?;
        if capturing && self.room.as_deref().is_some_and(|room| room.on_device.is_none()) {
            stream.refuse_capture("load the kernel that plans")?;
        }
        self.prepare_device_updates()?;
        let Some(room) = self.room.as_deref_mut() else { return Err(BatchError::NoCapacity.into()) };
        let Some(OnDevice { planner, params, parts }) = &room.on_device else { return Err(CudaError::StalePlan) };
        let params = params.of_batch(batch, &room.capacity)?;
        addresses(batch)?;
        let mut turn = self.memory.turn_of(self.generation)?;
        if !capturing {
            turn.wait_unless_on(stream)?;
        }
        let _current = self.attention.inner.device.make_current()?;
        let smem = if params.scratch == 0 { params.memory_bytes() as u32 } else { 0 };
        // one arm; a variant without parameters still has a byte
        let args = self.arms[0].args.bytes();
        let variant = if args.is_empty() { &[0; 16][..] } else { args };
        // SAFETY: whoever made the arrays promised that they are there; sections of the workspace are as large as the room that the kernel keeps to.
        unsafe { launch(planner.function, (parts + 1, 1), THREADS, smem, stream, &params, variant) }?;
        turn.used_on(stream);
        drop(turn);
        self.stream = Some(stream.as_raw() as usize);
        room.batch_is_on_device = true;
        room.is_captured_on_device |= capturing;
        Ok(())
    }

    /// Compiles and loads the kernel of [`Plan::update_on_device`], if that has not been done: so that an update may be captured at once.
    ///
    /// # Errors
    ///
    /// A plan without capacity, or that only the host can update; no kernel.
    pub fn prepare_device_updates(&mut self) -> Result<(), CudaError> {
        let Some(room) = self.room.as_deref_mut() else { return Err(BatchError::NoCapacity.into()) };
        if room.on_device.is_some() {
            return Ok(());
        }
        let attention = &self.attention;
        let not = |what| Err(CudaError::NotOnDevice { what });
        if self.arms.len() > 1 {
            return not("a union, whose arms have a list each");
        }
        if attention.variant().has_kv_list() {
            return not("a variant whose keys come from lists");
        }
        if attention.variant().has(Hook::KvRange) {
            return not("a variant with `kv_range`, which is asked for each head");
        }
        if !self.layers.is_empty() {
            return not("layers that see different keys");
        }
        if attention.depends_on_lengths() {
            return not("a variant with tensors over the lengths of a batch");
        }
        let (Rule::Flat(rule), Counts::Flat(counts)) = (&room.rule, &room.counts) else {
            return not("the mixed kernel");
        };
        if rule.schedule != plan::Schedule::Line {
            let prefill = self.arms[0].kernel.cell().kind == KernelKind::Prefill; // there is one arm at least
            return not(if prefill { "the prefill kernel" } else { "a batch-invariant attention" });
        }
        let heads = attention.heads();
        let params = PlanParams::new(&room.capacity, counts, rule, heads)?;
        let planner = attention.planner()?;
        let (sections, base) = (&self.sections, self.memory.buffer.ptr());
        let Some(lists) = sections.lists.flat() else { return not("the mixed kernel") };
        let PlanOffsets { qo_indptr, kv_indptr, page_indptr, page_indices, items, merges, workers, .. } = lists;
        let at = |section: &std::ops::Range<usize>| base + section.start as u64;
        let status = at(&sections.planning);
        let params = PlanParams {
            to_qo_indptr: at(qo_indptr),
            to_kv_indptr: at(kv_indptr),
            to_page_indptr: at(page_indptr),
            to_page_indices: at(page_indices),
            workers: at(workers),
            items: at(items),
            merges: at(merges),
            status,
            scratch: if params.fits_shared_memory() { 0 } else { status + PLAN_STATUS_BYTES as u64 },
            ..params
        };
        let others = attention.device().multiprocessors().saturating_sub(1).clamp(1, MOST_PARTS);
        let parts = counts.pages.map_or(0, |pages| (pages.div_ceil(ENTRIES) as u32).clamp(1, others));
        room.on_device = Some(OnDevice { planner, params, parts });
        Ok(())
    }

    /// What was wrong with the batch that the device planned last, if anything. Waits for everything given to the device.
    ///
    /// # Errors
    ///
    /// A [`BatchError`] as of [`Plan::update`] for the same batch, after which runs wrote nothing; a plan that is stale or without capacity; a stream that
    /// is being captured; a failure of the driver.
    pub fn device_status(&self, stream: &Stream) -> Result<(), CudaError> {
        self.attention.inner.device.check_same("stream", stream.device())?;
        if !self.is_current() {
            return Err(CudaError::StalePlan);
        }
        stream.refuse_capture("wait for what a plan says")?;
        let Some(room) = self.room.as_deref() else { return Err(BatchError::NoCapacity.into()) };
        let Some(OnDevice { params, .. }) = &room.on_device else { return Ok(()) };
        let mut status = PlanStatus::zeroed();
        self.memory.buffer.download(self.sections.planning.start, bytemuck::bytes_of_mut(&mut status))?;
        Ok(status.check(params)?)
    }

    /// The lists that are in the workspace, as [`PlanOffsets`] says. Waits for everything given to the device.
    ///
    /// # Errors
    ///
    /// A plan that is stale, or of a mixed launch; a failure of the driver.
    pub fn read_lists(&self) -> Result<(PlanOffsets, Vec<u8>), CudaError> {
        if !self.is_current() {
            return Err(CudaError::StalePlan);
        }
        let mixed = CudaError::NotOnDevice { what: "the mixed kernel" };
        let offsets = self.sections.lists.flat().ok_or(mixed)?.clone();
        let mut bytes = vec![0; offsets.total];
        self.memory.buffer.download(0, &mut bytes)?;
        Ok((offsets, bytes))
    }
}

/// Refuses arrays that no kernel can read.
pub(super) fn addresses(batch: &DeviceBatch<'_>) -> Result<(), CudaError> {
    batch.arrays().try_for_each(|(name, array)| address(name, &array))
}

/// Refuses numbers that no kernel can read.
fn address(name: &'static str, array: &Ints<'_>) -> Result<(), CudaError> {
    let Some(ptr) = array.device_ptr() else { return Err(CudaError::HostInts { array: name }) };
    let aligned = ptr.is_multiple_of(4) && (ptr != 0 || array.is_empty());
    if aligned { Ok(()) } else { Err(CudaError::Alignment { tensor: name, what: "its address", value: ptr }) }
}
