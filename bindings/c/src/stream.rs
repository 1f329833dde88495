//! The order of runs.

use std::ffi::c_void;

use attn::Stream;

use crate::engine::AttnEngine;
use crate::input::{give, handle};
use crate::memory::Memory;
use crate::status::{AttnStatus, call, free};

/// The order of runs on a device. On the CPU a run returns when it is done, and a stream does nothing.
#[derive(Debug)]
pub struct AttnStream {
    pub(crate) stream: Stream,
    pub(crate) memory: Memory,
}

/// A new stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_stream_new(engine: *const AttnEngine, out: *mut *mut AttnStream) -> AttnStatus {
    // SAFETY: the caller's pointers.
    call(|| unsafe {
        give(out, || {
            let AttnEngine(engine) = handle(engine, "engine")?;
            Ok(AttnStream { stream: engine.stream()?, memory: Memory::of(engine) })
        })
    })
}

/// A stream that the caller made: a `CUstream` or `cudaStream_t` of the device's primary context, which outlives this
/// handle. Null is the default stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_stream_from_raw(
    engine: *const AttnEngine,
    stream: *mut c_void,
    out: *mut *mut AttnStream,
) -> AttnStatus {
    call(|| {
        // SAFETY: the caller's pointers and stream.
        unsafe {
            give(out, || {
                let AttnEngine(engine) = handle(engine, "engine")?;
                Ok(AttnStream { stream: Stream::from_raw(engine, stream)?, memory: Memory::of(engine) })
            })
        }
    })
}

/// Waits for everything that was launched on the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_stream_synchronize(stream: *const AttnStream) -> AttnStatus {
    // SAFETY: the caller's handle.
    call(|| Ok(unsafe { handle(stream, "stream") }?.stream.synchronize()?))
}

/// Frees a stream. One that the caller made stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_stream_free(stream: *mut AttnStream) {
    // SAFETY: the caller's handle, which it frees once.
    unsafe { free(stream) }
}
