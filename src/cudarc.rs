//! [cudarc](https://docs.rs/cudarc) 0.19: its views as tensors, and its streams.
//!
//! Put everything on one stream, or order streams yourself: cudarc does not know which runs use a descriptor, and
//! records none of them in its events. Making a descriptor makes the stream wait for the event of the view, as cudarc
//! does wherever a pointer is taken, if the context tracks events and has several streams.
//!
//! **Captures**: under a capture this wait refers to work outside of it, and the capture fails. Make descriptors before
//! the capture, or turn the events of the context off
//! ([`CudaContext::disable_event_tracking`](cudarc::driver::CudaContext::disable_event_tracking)). Then making a
//! descriptor waits for nothing.

use std::mem;

/// The crate, in the version whose views these functions take.
pub use cudarc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr};

use crate::{Element, Engine, Error, Stream, TensorMut, TensorRef, batch::I32Slice};

/// A cudarc view as a contiguous tensor to read.
///
/// # Errors
///
/// A shape of more elements than the view has.
///
/// # Safety
///
/// Every run that takes the tensor is on `stream`, or on a stream that is ordered with it. The view's memory is not
/// freed or written before the run has finished.
pub unsafe fn tensor<'a, T: Element + DeviceRepr>(
    view: &CudaView<'a, T>,
    stream: &CudaStream,
    shape: &[usize],
) -> Result<TensorRef<'a>, Error> {
    let ptr = pointer(view, stream);
    // SAFETY: the view is as long; the caller guarantees the rest.
    Ok(unsafe { TensorRef::device_slice(ptr, T::DTYPE, view.len(), shape) }?)
}

/// A cudarc view as a contiguous tensor to write.
///
/// # Errors
///
/// The errors of [`tensor`].
///
/// # Safety
///
/// The view's memory is not read; the conditions of [`tensor`].
pub unsafe fn tensor_mut<'a, T: Element + DeviceRepr>(
    view: &mut CudaViewMut<'a, T>,
    stream: &CudaStream,
    shape: &[usize],
) -> Result<TensorMut<'a>, Error> {
    let len = view.len();
    let (ptr, written) = view.device_ptr_mut(stream);
    mem::forget(written); // as in `pointer`
    // SAFETY: the view is as long; the caller guarantees the rest.
    Ok(unsafe { TensorMut::device_slice(ptr, T::DTYPE, len, shape) }?)
}

/// A cudarc view as lengths or pages of a batch ([`DeviceBatch`](crate::batch::DeviceBatch)).
///
/// # Safety
///
/// Every update that takes them is on `stream`, or on a stream that is ordered with it. The view's memory is not freed
/// before everything launched with them has finished, captured launches included.
pub unsafe fn ints<'a>(view: &CudaView<'a, i32>, stream: &CudaStream) -> I32Slice<'a> {
    let ptr = pointer(view, stream);
    // SAFETY: the view is as long; the caller guarantees the rest.
    unsafe { I32Slice::device(ptr, view.len()) }
}

/// A cudarc stream to run on.
///
/// # Errors
///
/// An engine that is the CPU.
///
/// # Safety
///
/// The stream belongs to the primary context of the engine's device, and outlives the returned stream.
pub unsafe fn stream(engine: &Engine, stream: &CudaStream) -> Result<Stream, Error> {
    // SAFETY: the caller guarantees it.
    unsafe { Stream::from_raw(engine, stream.cu_stream().cast()) }
}

/// The address of a view. The guard is forgotten, because its drop would record an event before any launch. Such an
/// event orders nothing, and under a capture it belongs to the capture. The guard owns nothing.
fn pointer<T>(view: &CudaView<'_, T>, stream: &CudaStream) -> u64 {
    let (ptr, read) = view.device_ptr(stream);
    mem::forget(read);
    ptr
}
