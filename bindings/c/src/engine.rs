//! Engines, the first objects of a C program: a CUDA device or the CPU.

use std::ffi::c_char;

use attn::{CostTable, Engine, Error};

use crate::input::{give, handle, handle_mut, text};
use crate::status::{AttnStatus, call, free};

/// A device that attention runs on: a CUDA device, or the CPU.
#[derive(Debug)]
pub struct AttnEngine(pub(crate) Engine);

/// CUDA device 0 if there is one, else the CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_engine_auto(out: *mut *mut AttnEngine) -> AttnStatus {
    // SAFETY: the caller's pointer.
    call(|| unsafe { give(out, || Ok(AttnEngine(Engine::auto()?))) })
}

/// The CPU, with all its threads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_engine_cpu(out: *mut *mut AttnEngine) -> AttnStatus {
    // SAFETY: the caller's pointer.
    call(|| unsafe { give(out, || Ok(AttnEngine(Engine::cpu()))) })
}

/// A CUDA device, through its primary context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_engine_cuda(ordinal: u32, out: *mut *mut AttnEngine) -> AttnStatus {
    // SAFETY: the caller's pointer.
    call(|| unsafe { give(out, || Ok(AttnEngine(Engine::cuda(ordinal)?))) })
}

/// Whether the engine is the CPU, so that tensors are in host memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_engine_is_cpu(engine: *const AttnEngine) -> bool {
    // SAFETY: the caller's handle.
    unsafe { handle(engine, "engine") }.is_ok_and(|engine| engine.0.is_cpu())
}

/// Loads costs of the engine's GPU from a file that `attn calibrate --out FILE` wrote. What is made of the engine
/// afterwards chooses kernels and plans by them, in place of the file that `ATTN_COSTS` names. The CPU has no use for
/// them. Nothing else may use the engine during the call; one that fails leaves it as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_engine_load_costs(engine: *mut AttnEngine, path: *const c_char) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's handle, and its text.
        let (engine, path) = unsafe { (handle_mut(engine, "engine")?, text(path, "path")?) };
        let costs = CostTable::load(path).map_err(Error::from)?;
        engine.0 = engine.0.clone().with_costs(&costs);
        Ok(())
    })
}

/// Lets go of what CUDA graphs of yours captured on the device: of plans (`attn_plan_release_captured`), attentions,
/// appends and merges, whether their handles are freed or not. None of these graphs may be replayed any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_engine_release_captured(engine: *const AttnEngine) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's handle.
        unsafe { handle(engine, "engine") }?.0.release_captured();
        Ok(())
    })
}

/// Frees an engine. What was made of it stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_engine_free(engine: *mut AttnEngine) {
    // SAFETY: the caller's handle, which it frees once.
    unsafe { free(engine) }
}
