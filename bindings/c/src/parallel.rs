//! Ranks of a group of engines, and decode whose keys are on several of them.

use std::ffi::{c_char, c_void};
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use attn::parallel::{Communicator, DecodeContextParallel};

use crate::attention::AttnAttention;
use crate::engine::AttnEngine;
use crate::input::{array, check_array, give, handle, text};
use crate::plan::{AttnPlan, AttnRun, with_run};
use crate::status::{AttnStatus, Failure, call, free};
use crate::stream::AttnStream;

/// The bytes of the id of a group.
pub const ATTN_GROUP_ID_BYTES: usize = 128;

/// A rank of a group of engines, each with a process or a thread of its own. All ranks make the same calls in the same
/// order. CUDA devices exchange over NCCL, which is loaded when it is first needed.
#[derive(Debug)]
pub struct AttnCommunicator(Arc<Communicator>);

/// Decode whose keys are on several ranks: memory for the states of all.
#[derive(Debug)]
pub struct AttnDecodeContextParallel {
    communicator: Arc<Communicator>,
    parallel: Mutex<DecodeContextParallel>,
}

/// How long ranks wait for each other.
fn limit(seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds).map_err(|why| Failure::argument(format!("limit is {seconds} s: {why}")))
}

/// Makes the id of a new group of CUDA devices, `ATTN_GROUP_ID_BYTES` bytes, which one rank makes and all are given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_communicator_new_id(id: *mut u8) -> AttnStatus {
    call(|| {
        check_array(id.cast_const(), ATTN_GROUP_ID_BYTES, "id")?;
        let made = Communicator::unique_id()?;
        // SAFETY: the caller's memory of so many bytes.
        unsafe { slice::from_raw_parts_mut(id, ATTN_GROUP_ID_BYTES) }.copy_from_slice(&made);
        Ok(())
    })
}

/// Joins the group of an id as one of its ranks, each on a CUDA device of its own. `limit` is how many seconds ranks
/// wait for each other, here and in `attn_communicator_wait`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_communicator_join(
    engine: *const AttnEngine,
    id: *const u8,
    rank: usize,
    ranks: usize,
    limit: f64,
    out: *mut *mut AttnCommunicator,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers, and bytes of the id.
        unsafe {
            give(out, || {
                let AttnEngine(engine) = handle(engine, "engine")?;
                let id = array(id, ATTN_GROUP_ID_BYTES, "id")?;
                let id = id.try_into().map_err(|_| Failure::argument("id has other than 128 bytes"))?;
                if rank >= ranks {
                    return Err(Failure::argument(format!("rank is {rank} of {ranks}; it is less")));
                }
                let communicator = Communicator::join(engine, id, rank, ranks, self::limit(limit)?)?;
                Ok(AttnCommunicator(Arc::new(communicator)))
            })
        }
    })
}

/// Borrows an `ncclComm_t` of the engine's device, which outlives what is made of it. Nobody else calls it while a call
/// here runs. It is never aborted here: where a rank fails, calls return errors, and the caller aborts it, so that its
/// work ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_communicator_from_raw(
    engine: *const AttnEngine,
    nccl_comm: *mut c_void,
    limit: f64,
    out: *mut *mut AttnCommunicator,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers and communicator.
        unsafe {
            give(out, || {
                let AttnEngine(engine) = handle(engine, "engine")?;
                if nccl_comm.is_null() {
                    return Err(Failure::argument("the ncclComm_t is null"));
                }
                let communicator = Communicator::from_raw(engine, nccl_comm, self::limit(limit)?)?;
                Ok(AttnCommunicator(Arc::new(communicator)))
            })
        }
    })
}

/// The ranks of a group of threads, whose engines are CPUs: `ranks` handles, each for a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_communicator_threads(
    ranks: usize,
    limit: f64,
    out: *mut *mut AttnCommunicator,
) -> AttnStatus {
    call(|| {
        check_array(out.cast_const(), ranks, "out")?;
        for (rank, communicator) in Communicator::threads(ranks, self::limit(limit)?).into_iter().enumerate() {
            // SAFETY: the caller's array of so many handles.
            unsafe { out.add(rank).write(Box::into_raw(Box::new(AttnCommunicator(Arc::new(communicator))))) };
        }
        Ok(())
    })
}

/// Waits for the work of a stream no longer than the limit of the group. Work that waits for a rank that failed never
/// ends on a device: it is aborted then, this and later calls of the group fail, and the text says why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_communicator_wait(
    communicator: *const AttnCommunicator,
    stream: *const AttnStream,
) -> AttnStatus {
    // SAFETY: the caller's handles.
    call(|| unsafe { Ok(handle(communicator, "communicator")?.0.wait(&handle(stream, "stream")?.stream)?) })
}

/// Breaks the group: its calls fail with this text, and other ranks get an error where they wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_communicator_abort(
    communicator: *const AttnCommunicator,
    why: *const c_char,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's handle and text.
        unsafe { handle(communicator, "communicator")?.0.abort(text(why, "why")?) };
        Ok(())
    })
}

/// Frees a rank. On the CPU the others then fail where they wait for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_communicator_free(communicator: *mut AttnCommunicator) {
    // SAFETY: the caller's handle, which it frees once.
    unsafe { free(communicator) }
}

/// Memory for the states of up to `tokens` query tokens of an attention. With `scatter_heads` a rank receives the
/// outputs of its own heads alone, as many as heads / ranks (all-to-all); else those of all (all-gather). Refused are
/// variants with an output transform, and those that read positions outside of a `remap`, or the number of keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_decode_context_parallel_new(
    attention: *const AttnAttention,
    communicator: *const AttnCommunicator,
    tokens: usize,
    scatter_heads: bool,
    out: *mut *mut AttnDecodeContextParallel,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers.
        unsafe {
            give(out, || {
                let AttnAttention { attention, engine, .. } = handle(attention, "attention")?;
                let communicator = handle(communicator, "communicator")?.0.clone();
                let made = DecodeContextParallel::new(engine, attention, &communicator, tokens, scatter_heads)?;
                Ok(AttnDecodeContextParallel { communicator, parallel: Mutex::new(made) })
            })
        }
    })
}

/// Runs the plan of this rank, which is over its own keys, possibly none, and merges the states of all ranks into the
/// output of `run`; with `scatter_heads` it has the heads of this rank. Outputs that are not divided by the sum of
/// weights are added up, and have no log-sum-exps. `run.partial` has no meaning here. As `attn_plan_run`, it launches
/// and returns, and a graph can capture it after a first run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_decode_context_parallel_run(
    parallel: *const AttnDecodeContextParallel,
    plan: *const AttnPlan,
    stream: *const AttnStream,
    run: *const AttnRun,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers; its tensors are its promise.
        unsafe {
            let (of, stream) = (handle(parallel, "parallel")?, &handle(stream, "stream")?.stream);
            with_run(plan, run, |plan, q, kv, out, options| {
                let mut parallel = of.parallel.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(parallel.run(&of.communicator, plan, stream, q, kv, out, options.layer)?)
            })
        }
    })
}

/// Frees the memory for states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_decode_context_parallel_free(parallel: *mut AttnDecodeContextParallel) {
    // SAFETY: the caller's handle, which it frees once.
    unsafe { free(parallel) }
}
