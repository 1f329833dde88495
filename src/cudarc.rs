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

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr};

use crate::{
    Engine, Error, Stream, TensorMut, TensorRef,
    batch::I32Slice,
    tensor::{Element, TensorError},
};

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
    let strides = strides(shape, view.len())?;
    let ptr = pointer(view, stream);
    // SAFETY: the extents are checked; the caller guarantees the rest.
    Ok(unsafe { TensorRef::device(ptr, T::DTYPE, shape, &strides) }?)
}

/// A cudarc view as a contiguous tensor to write.
///
/// # Errors
///
/// As [`tensor`].
///
/// # Safety
///
/// As [`tensor`], and the view's memory is not read.
pub unsafe fn tensor_mut<'a, T: Element + DeviceRepr>(
    view: &mut CudaViewMut<'a, T>,
    stream: &CudaStream,
    shape: &[usize],
) -> Result<TensorMut<'a>, Error> {
    let strides = strides(shape, view.len())?;
    let (ptr, written) = view.device_ptr_mut(stream);
    mem::forget(written); // as in `pointer`
    // SAFETY: the extents are checked; the caller guarantees the rest.
    Ok(unsafe { TensorMut::device(ptr, T::DTYPE, shape, &strides) }?)
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

fn strides(shape: &[usize], len: usize) -> Result<Vec<i64>, Error> {
    let too_large = || TensorError::TooLarge { shape: shape.to_vec() };
    let extent = shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e)).ok_or_else(too_large)?;
    if extent > len {
        return Err(TensorError::Extent { extent: extent as u64, len: len as u64 }.into());
    }
    let mut strides = vec![1i64; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i].max(1) as i64);
    }
    Ok(strides)
}

#[cfg(test)]
mod tests {
    use super::strides;

    #[test]
    fn a_shape_must_fit_the_view() {
        assert_eq!(strides(&[2, 3, 4], 24).expect("fits"), [12, 4, 1]);
        assert_eq!(strides(&[0, 3], 0).expect("an empty shape fits anywhere"), [3, 1]);
        let error = strides(&[2, 3, 4], 23).expect_err("one too few").to_string();
        assert!(error.contains("24") && error.contains("23"), "{error}");
        assert!(strides(&[usize::MAX, 2], 4).expect_err("overflows").to_string().contains("too large"));
    }
}
