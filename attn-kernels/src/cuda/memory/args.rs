//! A variant's parameters on the device: the bytes of `struct Variant`, and the tensors that it points to.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use attn_core::expr::{ContentError, TensorContent, TensorSlot, Variant};
use attn_core::lang::param_tensor::OutBuffer;
use cudarc::driver::result;

use super::output_buffers::output_buffer;
use crate::cuda::driver::uses::Access;
use crate::cuda::{CudaBuffer, CudaError, CudaStream, Device};
use crate::splice::variant::{Pointee, variant_args};

/// The second parameter of every kernel, and the tensors that it points to.
#[derive(Debug)]
pub(in crate::cuda) struct Args {
    bytes: Vec<u8>,
    tensors: Vec<UploadedTensor>,
    /// Held by launches that read the tensors, and by those who replace their content.
    content: RwLock<()>,
}

#[derive(Debug)]
struct UploadedTensor {
    host: HostSide,
    buffer: Arc<CudaBuffer>,
}

/// The content of a device buffer.
#[derive(Debug)]
enum HostSide {
    /// A copy of these bytes, which no kernel changes.
    Table(Vec<u8>),
    /// The values that kernels store for this handle.
    Out(OutBuffer),
}

impl Args {
    /// Uploads the tensors of a bound variant. Output tensors start with the values of their handles. Returns when the
    /// uploads have finished.
    pub(in crate::cuda) fn upload(device: &Device, variant: &Variant) -> Result<Self, CudaError> {
        let mut tensors: Vec<UploadedTensor> = Vec::new();
        let bytes = variant_args(variant, |pointee| {
            let (host, buffer) = match pointee {
                Pointee::Table(bytes) => {
                    (HostSide::Table(bytes.to_vec()), Arc::new(CudaBuffer::upload(device, bytes)?))
                }
                Pointee::Out(out) => (HostSide::Out(out.clone()), output_buffer(device, out)?),
            };
            let address = buffer.ptr();
            tensors.push(UploadedTensor { host, buffer });
            Ok::<u64, CudaError>(address)
        })?;
        Ok(Args { bytes, tensors, content: RwLock::new(()) })
    }

    /// Whether these are the arguments of the variant.
    pub(in crate::cuda) fn are_of(&self, variant: &Variant) -> bool {
        let mut known = self.tensors.iter();
        let mut same = true;
        let bytes = variant_args(variant, |pointee| {
            let found = known.next().filter(|tensor| match (&tensor.host, pointee) {
                (HostSide::Table(there), Pointee::Table(bytes)) => there == bytes,
                (HostSide::Out(there), Pointee::Out(out)) => there.id() == out.id(),
                _ => false,
            });
            same &= found.is_some();
            Ok::<u64, Infallible>(found.map_or(0, |tensor| tensor.buffer.ptr()))
        });
        same && bytes.is_ok_and(|bytes| bytes == self.bytes)
    }

    /// Copies what kernels stored into the handles. Waits for all work of the device.
    pub(in crate::cuda) fn fetch(&self) -> Result<(), CudaError> {
        for UploadedTensor { host, buffer } in &self.tensors {
            if let HostSide::Out(out) = host {
                let mut values = vec![0.0f32; out.len()];
                buffer.download(0, bytemuck::cast_slice_mut(&mut values))?;
                // the buffer has as many values
                let _ = out.write_back(&values);
            }
        }
        Ok(())
    }

    /// Orders the next work of the stream after copies into the tables that it reads. Stores to output tensors are not
    /// ordered: those of runs on several streams interleave, as those of CTAs do.
    pub(in crate::cuda) fn order(&self, stream: &CudaStream) -> Result<(), CudaError> {
        let mut tables = self.tensors.iter().filter(|tensor| matches!(tensor.host, HostSide::Table(_)));
        tables.try_for_each(|table| table.buffer.uses().order(stream.state(), Access::Read))
    }

    /// Keeps the content of the tensors while launches are submitted that read it.
    pub(in crate::cuda) fn keep_content(&self) -> RwLockReadGuard<'_, ()> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `replace`, which submits a copy into a tensor, while no launch is being submitted.
    pub(in crate::cuda) fn replace_content<T>(&self, replace: impl FnOnce() -> T) -> T {
        let _alone = self.content.write().unwrap_or_else(PoisonError::into_inner);
        replace()
    }

    /// The uploaded tensor number `place`, if it is a table.
    fn buffer(&self, index: usize) -> Option<&CudaBuffer> {
        let tensor = self.tensors.get(index)?;
        matches!(tensor.host, HostSide::Table(_)).then_some(&*tensor.buffer)
    }

    /// At least `sizeof(Variant)` bytes.
    pub(in crate::cuda) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Replaces the content of one of the tensors.
    pub(in crate::cuda) fn replace(
        &self,
        stream: &CudaStream,
        buffer: &CudaBuffer,
        content: &TensorContent<'_>,
    ) -> Result<(), CudaError> {
        self.replace_content(|| match (content.as_host(), content.device_ptr()) {
            (Some(bytes), _) => buffer.write_shared(stream, 0, bytes),
            (None, Some(ptr)) => {
                let _current = stream.device().make_current()?;
                let _submission = stream.submission();
                buffer.uses().submit(stream.state(), Access::Write, || {
                    // SAFETY: the buffer is as long as the content, which its maker promised to be there.
                    unsafe { result::memcpy_dtod_async(buffer.ptr(), ptr, content.byte_len(), stream.raw()) }
                        .map_err(|e| CudaError::driver("copy a tensor", e))
                })
            }
            (None, None) => Ok(()), // there is no third kind of memory
        })
    }

    /// The buffer of a parameter tensor of `variant`, which these are the arguments of.
    pub(in crate::cuda) fn tensor(&self, variant: &Variant, slot: &TensorSlot) -> Result<&CudaBuffer, CudaError> {
        let why = "has no memory of its own";
        let not_there = || ContentError::NoTensor { name: slot.name.to_owned(), why }.into();
        self.found(variant, slot).ok_or_else(not_there)
    }

    fn found(&self, variant: &Variant, slot: &TensorSlot) -> Option<&CudaBuffer> {
        let (address, mut before) = variant.content_address(slot)?;
        let (mut index, mut number) = (None, 0);
        // in the order in which they were uploaded
        let Ok(_) = variant_args(variant, |pointee| {
            if let Pointee::Table(bytes) = pointee
                && bytes.as_ptr() as usize == address
                && bytes.len() == slot.bytes
            {
                if before == 0 {
                    index.get_or_insert(number);
                }
                before = before.saturating_sub(1);
            }
            number += 1;
            Ok::<u64, Infallible>(0)
        });
        self.buffer(index?)
    }
}
