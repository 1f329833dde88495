//! Numbers of batches and ops in tensors: lengths, pages, slots, positions.

use attn::batch::I32Slice;
use attn::ops::{Array, Number};
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
#[cfg(feature = "cuda")]
use candle_core::cuda_backend::CudaStorageSlice;
#[cfg(feature = "cuda")]
use candle_core::cuda_backend::cudarc::driver::DevicePtr;
use candle_core::{CpuStorage, DType, Device, Layout, Result, Storage, StorageRef, Tensor};

use super::{CudaStream, Guard};
use crate::error::refuse;

/// 32-bit integers, of which none exceeds `i32::MAX`.
pub(crate) struct Ints<'a> {
    storage: StorageRef<'a>,
    offset: usize,
    len: usize,
    name: &'static str,
}

impl<'a> Ints<'a> {
    /// A contiguous tensor of u32 or i32.
    pub(crate) fn new(tensor: &'a Tensor, name: &'static str) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let Some((offset, end)) = layout.contiguous_offsets() else {
            return refuse(format!("`{name}` has gaps between its numbers; pass `{name}.contiguous()`"));
        };
        Ok(Ints { storage, offset, len: end - offset, name })
    }

    pub(crate) fn device(&self) -> Device {
        self.storage.device()
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    fn other(&self, of: DType) -> String {
        format!("`{}` is of {}; it takes u32 or i32 (`to_dtype`)", self.name, of.as_str())
    }

    /// The numbers as those of a batch.
    pub(crate) fn slice<'b>(&'b self, stream: Option<&'b CudaStream>) -> Result<IntSlice<'b>> {
        let range = self.offset..self.offset + self.len;
        match &*self.storage {
            Storage::Cpu(CpuStorage::I32(data)) => Ok(IntSlice::host(&data[range])),
            Storage::Cpu(CpuStorage::U32(data)) => Ok(IntSlice::host(attn::batch::words(&data[range]))),
            #[cfg(feature = "cuda")]
            Storage::Cuda(storage) => {
                let Some(stream) = stream else { return refuse(format!("`{}` is on another device", self.name)) };
                let (ptr, order) = match &storage.slice {
                    CudaStorageSlice::I32(slice) => slice.device_ptr(stream),
                    CudaStorageSlice::U32(slice) => slice.device_ptr(stream),
                    _ => return refuse(self.other(candle_core::backend::BackendStorage::dtype(storage))),
                };
                let ptr = ptr + 4 * self.offset as u64;
                // SAFETY: the storage holds the numbers, and is freed in the order of the stream that updates are in.
                let slice = unsafe { I32Slice::device(ptr, self.len) };
                Ok(IntSlice { slice, _order: Some(order) })
            }
            other => refuse(self.other(other.dtype())),
        }
    }
}

/// Numbers of a batch; ordered as [`Source`].
pub(crate) struct IntSlice<'a> {
    pub(crate) slice: I32Slice<'a>,
    _order: Option<Guard<'a>>,
}

impl<'a> IntSlice<'a> {
    fn host(values: &'a [i32]) -> Self {
        IntSlice { slice: I32Slice::host(values), _order: None }
    }

    /// The numbers as those of an op.
    pub(crate) fn array(&self) -> Array<'a, i32> {
        match (self.slice.as_host(), self.slice.device_ptr()) {
            // SAFETY: as where the slice was made.
            (None, Some(ptr)) => unsafe { Array::device(ptr, self.slice.len()) },
            (host, _) => Array::host(host.unwrap_or(&[])),
        }
    }
}

/// Numbers of an op; ordered as [`Source`].
pub(crate) struct OpArray<'a, T> {
    pub(crate) array: Array<'a, T>,
    _order: Option<Guard<'a>>,
}

impl<'a, T: Number> OpArray<'a, T> {
    fn host(values: &'a [T]) -> Self {
        OpArray { array: Array::host(values), _order: None }
    }
}

/// The slots of new keys: a contiguous tensor of i64.
pub(crate) fn slots<'a>(
    storage: &'a Storage,
    layout: &Layout,
    stream: Option<&'a CudaStream>,
) -> Result<OpArray<'a, i64>> {
    let Some((offset, end)) = layout.contiguous_offsets() else {
        return refuse("`slots` has gaps between its numbers; pass `slots.contiguous()`");
    };
    match storage {
        Storage::Cpu(CpuStorage::I64(data)) => Ok(OpArray::host(&data[offset..end])),
        #[cfg(feature = "cuda")]
        Storage::Cuda(CudaStorage { slice: CudaStorageSlice::I64(slice), .. }) => {
            let Some(stream) = stream else { return refuse("`slots` is on another device") };
            let (ptr, order) = slice.device_ptr(stream);
            // SAFETY: as for the numbers of a batch.
            let array = unsafe { Array::device(ptr + 8 * offset as u64, end - offset) };
            Ok(OpArray { array, _order: Some(order) })
        }
        other => refuse(format!("`slots` is of {}; it takes i64 (`to_dtype`)", other.dtype().as_str())),
    }
}
