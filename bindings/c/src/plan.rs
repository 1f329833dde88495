//! Plans of a batch, and their runs.

use std::mem::offset_of;

use attn::{Kv, Out, Plan, PlanOptions, RunOptions, TensorRef, Workspace};

use crate::attention::AttnAttention;
use crate::batch::{AttnBatch, AttnCapacity, with_batch};
use crate::device_batch::{AttnDeviceBatch, with_device_batch};
use crate::input::{Versioned, give, handle, handle_mut, member, versioned};
use crate::memory::Memory;
use crate::status::{AttnStatus, Failure, call, free};
use crate::stream::AttnStream;
use crate::tensor::{AttnTensor, LAYOUTS, keys_and_values, scales};

/// A planned batch, with the memory of its work list and partial states. It can run any number of times.
#[derive(Debug)]
pub struct AttnPlan {
    plan: Plan,
    memory: Memory,
    _workspace: Workspace,
}

/// What a run reads and writes. Zero it, then set `size` and what differs from zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnRun {
    /// `sizeof(AttnRun)`.
    pub size: usize,
    /// Queries: (query tokens, query heads, head dim).
    pub q: AttnTensor,
    /// Keys: (keys, KV heads, head dim) where the batch is ragged, else a pool as `kv_layout` says.
    pub k: AttnTensor,
    /// Values, as the keys; zero for a fused pool, and where values are in keys.
    pub v: AttnTensor,
    /// The output: (query tokens, query heads, value dim).
    pub o: AttnTensor,
    /// If its data is not null: the log-sum-exp of each row of logits, f32 of (query tokens, query heads).
    pub lse: AttnTensor,
    /// The attention of another layer (`attn_attention_with_parameters`); null for that of the plan.
    pub layer: *const AttnAttention,
    /// An `AttnKvLayout`.
    pub kv_layout: u32,
    /// Not 0 for the state of each row over these keys, to be merged with that over others: no sink, no output
    /// transform. It needs `lse`.
    pub partial: u32,
    /// What stored keys are multiplied by; 0 for 1.
    pub k_scale: f32,
    /// What stored values are multiplied by; 0 for 1.
    pub v_scale: f32,
    /// Side data of keys in a KV format that has any, in the order of dimensions of `k`; zero otherwise. In a fused
    /// layout it is one pool for keys and values.
    pub k_side: AttnTensor,
    /// Side data of values, as that of keys; zero where values are in keys.
    pub v_side: AttnTensor,
}

// SAFETY: its first field is its size, and all fields are numbers and pointers.
unsafe impl Versioned for AttnRun {
    const NAME: &'static str = "AttnRun";
    const FIRST_SIZE: usize = offset_of!(AttnRun, k_side);
}

/// Plans a batch. With a `capacity` the plan can be updated to other batches up to that one; without, it is null.
/// Kernels that are not cached are compiled now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_plan_new(
    attention: *const AttnAttention,
    batch: *const AttnBatch,
    capacity: *const AttnCapacity,
    out: *mut *mut AttnPlan,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers and arrays.
        unsafe {
            give(out, || {
                let AttnAttention { attention, engine, .. } = handle(attention, "attention")?;
                let capacity = if capacity.is_null() { None } else { Some(versioned(capacity)?.capacity()) };
                let mut workspace = engine.workspace();
                let options = PlanOptions { capacity, ..PlanOptions::default() };
                let plan = with_batch(batch, |batch| Ok(attention.plan_with(batch, &mut workspace, options)?))?;
                Ok(AttnPlan { plan, memory: Memory::of(engine), _workspace: workspace })
            })
        }
    })
}

/// Updates a plan that has a capacity to another batch, in the order of the stream. Captured runs that are replayed
/// later compute that batch. A call that fails changes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_plan_update(
    plan: *mut AttnPlan,
    stream: *const AttnStream,
    batch: *const AttnBatch,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers and arrays.
        unsafe {
            let (plan, stream) = (handle_mut(plan, "plan")?, handle(stream, "stream")?);
            with_batch(batch, |batch| Ok(plan.plan.update(&stream.stream, batch)?))
        }
    })
}

/// Updates a plan that has a capacity to a batch whose arrays are on the device, in the order of the stream: a kernel
/// reads lengths and pages and writes the work list, so that the host neither waits nor learns the lengths. It can be
/// captured together with runs; the arrays then live as long as the graph, and each replay plans what they hold. With a
/// batch that is not sound, or past the capacity, runs write nothing, and `attn_plan_device_status` tells why; on the
/// CPU it is the error of this call. On a CUDA device the plans of some attentions are refused, and updated by the host
/// alone: of those whose keys come from lists or of several variants. Levels run as they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_plan_update_on_device(
    plan: *mut AttnPlan,
    stream: *const AttnStream,
    batch: *const AttnDeviceBatch,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers and arrays.
        unsafe {
            let (AttnPlan { plan, memory, .. }, stream) = (handle_mut(plan, "plan")?, handle(stream, "stream")?);
            with_device_batch(batch, memory, |batch| Ok(plan.update_on_device(&stream.stream, batch)?))
        }
    })
}

/// Compiles and loads the kernel of `attn_plan_update_on_device`, unless it is loaded, so that the first update can be
/// captured.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_plan_prepare_device_updates(plan: *mut AttnPlan) -> AttnStatus {
    // SAFETY: the caller's handle.
    call(|| Ok(unsafe { handle_mut(plan, "plan") }?.plan.prepare_device_updates()?))
}

/// The error of the batch that the device planned last, if any. Waits for everything that was launched on the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_plan_device_status(plan: *const AttnPlan, stream: *const AttnStream) -> AttnStatus {
    // SAFETY: the caller's handles.
    call(|| Ok(unsafe { handle(plan, "plan")?.plan.device_status(&handle(stream, "stream")?.stream) }?))
}

/// Runs the attention of a plan. On a CUDA device it launches and returns: it allocates nothing and waits for nothing,
/// so that a graph can capture it. The tensors stay until the stream has executed it. On the CPU it returns when it is
/// done. Without a capacity, tensors have the tokens of the batch; with one they may have more, of which outputs are
/// left as they are. Outputs share no memory with each other or with an input.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_plan_run(
    plan: *const AttnPlan,
    stream: *const AttnStream,
    run: *const AttnRun,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers; its tensors are its promise.
        unsafe {
            let stream = &handle(stream, "stream")?.stream;
            with_run(plan, run, |plan, q, kv, out, options| Ok(plan.run_with(stream, q, kv, out, options)?))
        }
    })
}

/// Calls `with` with a plan and the tensors of a run.
///
/// # Safety
///
/// The caller's pointers; its tensors are its promise.
pub(crate) unsafe fn with_run<T>(
    plan: *const AttnPlan,
    run: *const AttnRun,
    with: impl FnOnce(&Plan, TensorRef<'_>, Kv<'_>, Out<'_>, RunOptions<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    unsafe {
        let (plan, run) = (handle(plan, "plan")?, versioned(run)?);
        let layout = member(run.kv_layout, &LAYOUTS, "AttnRun.kv_layout")?;
        let (q, memory) = (run.q.read(&plan.memory, "q")?, &plan.memory);
        let kv = keys_and_values([&run.k, &run.v], [&run.k_side, &run.v_side], layout, memory)?;
        let kv = kv.with_scales(scales(run.k_scale, run.v_scale));
        let o = run.o.write(memory, "o")?;
        let out = match run.lse.data.is_null() {
            true => Out::new(o),
            false => Out::with_lse(o, run.lse.write(memory, "lse")?),
        };
        let layer = match run.layer.is_null() {
            true => None,
            false => Some(&handle(run.layer, "layer")?.attention),
        };
        with(&plan.plan, q, kv, out, RunOptions { layer, partial: run.partial != 0 })
    }
}

/// Lets go of the memory and kernels that a CUDA graph of yours captured with runs of this plan, which must not be
/// replayed any more. They are kept until then, also after `attn_plan_free`; `attn_engine_release_captured` releases
/// those of plans that are gone. The plan itself goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_plan_release_captured(plan: *const AttnPlan) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's handle.
        unsafe { handle(plan, "plan") }?.plan.release_captured();
        Ok(())
    })
}

/// Frees a plan. On a CUDA device this waits for its runs. What a CUDA graph captured of it stays
/// (`attn_plan_release_captured`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_plan_free(plan: *mut AttnPlan) {
    // SAFETY: the caller's handle, which it frees once.
    unsafe { free(plan) }
}
