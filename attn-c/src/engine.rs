//! Devices.

use attn::Engine;

use crate::{
    input::{give, handle},
    status::{AttnStatus, call, free},
};

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

/// Frees an engine. What was made of it stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_engine_free(engine: *mut AttnEngine) {
    // SAFETY: the caller's handle, which it frees once.
    unsafe { free(engine) }
}
