//! Memory of ops beside tensors: arrays of integers, and pinned host memory.

use super::{Array, ArrayMut, Number};
use crate::backend::{Backend, CudaBuffer, CudaHostBuffer, map_backend, on_backend};
use crate::memory::{check_elements, zeros};
use crate::{DeviceBuffer, Dtype, Element, Engine, Error, Stream, TensorError, TensorMut, TensorRef};

/// An array of integers in memory of an engine: on the device, or on the host where the engine is the CPU. Freed on
/// drop.
///
/// A convenience for programs without a tensor library. Ops take descriptors of any memory ([`Array::device`],
/// [`Array::host`]).
#[derive(Debug)]
pub struct DeviceArray<T> {
    memory: Backend<Vec<T>, CudaBuffer>,
    len: usize,
}

impl<T: Number> DeviceArray<T> {
    /// Allocates an array and copies `values` into it.
    ///
    /// # Errors
    ///
    /// Out of memory, or a failure of the driver.
    pub fn upload(engine: &Engine, values: &[T]) -> Result<Self, Error> {
        let memory = map_backend!(&engine.backend, {
            Cpu(()) => values.to_vec(),
            Cuda(device) => CudaBuffer::upload(device, bytemuck::cast_slice(values))?,
        });
        Ok(DeviceArray { memory, len: values.len() })
    }

    /// Allocates `len` zeros.
    ///
    /// # Errors
    ///
    /// Out of memory, or a failure of the driver.
    pub fn zeroed(engine: &Engine, len: usize) -> Result<Self, Error> {
        let memory = map_backend!(&engine.backend, {
            Cpu(()) => zeros(len)?,
            Cuda(device) => {
                let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| TensorError::TooLarge { shape: vec![len] })?;
                CudaBuffer::zeroed(device, bytes)?
            },
        });
        Ok(DeviceArray { memory, len })
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `values` to the array from entry `first` on, in the order of the stream, like [`DeviceBuffer::write`].
    ///
    /// # Errors
    ///
    /// More values than fit; a stream of another engine, or one that is being captured; a failure of the driver.
    /// Nothing is written then.
    pub fn write(&mut self, stream: &Stream, first: usize, values: &[T]) -> Result<(), Error> {
        let extent = (first as u64).saturating_add(values.len() as u64);
        if extent > self.len as u64 {
            return Err(TensorError::Extent { extent, len: self.len as u64 }.into());
        }
        on_backend!(&mut self.memory, {
            Cpu(to) => {
                stream.cpu()?;
                to[first..first + values.len()].copy_from_slice(values);
                Ok(())
            },
            Cuda(buffer) => Ok(buffer.write(stream.cuda()?, first * size_of::<T>(), bytemuck::cast_slice(values))?),
        })
    }

    /// The memory on a CUDA device.
    #[cfg(feature = "cuda")]
    pub(super) fn cuda(&mut self) -> Result<&mut CudaBuffer, Error> {
        self.memory.cuda_mut("array")
    }

    /// The array to read.
    #[must_use]
    pub fn array(&self) -> Array<'_, T> {
        on_backend!(&self.memory, {
            Cpu(values) => Array::host(values),
            // SAFETY: the buffer holds `len` elements. It outlives the borrow, and freeing it waits for the device. Its
            // owner refuses other devices, and orders later writes after the reads of ops.
            Cuda(buffer) => unsafe { Array::device(buffer.ptr(), self.len) }.owned_by(buffer.owner()),
        })
    }

    /// The array to write.
    #[must_use]
    pub fn array_mut(&mut self) -> ArrayMut<'_, T> {
        on_backend!(&mut self.memory, {
            Cpu(values) => ArrayMut::host(values),
            // SAFETY: as in `array`, and the borrow is exclusive.
            Cuda(buffer) => unsafe { ArrayMut::device(buffer.ptr(), self.len) }.owned_by(buffer.owner()),
        })
    }

    /// Copies the array to the host, after everything launched on the device has finished.
    ///
    /// # Errors
    ///
    /// A fault of a kernel that ran before.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        on_backend!(&self.memory, {
            Cpu(values) => Ok(values.clone()),
            Cuda(buffer) => {
                let mut values = zeros::<T>(self.len)?;
                buffer.download(0, bytemuck::cast_slice_mut(&mut values))?;
                Ok(values)
            },
        })
    }
}

/// Pinned host memory with a type of elements, which the engine's device accesses directly: the destination of swapped
/// pages. Freed on drop. Where the engine is the CPU it is ordinary memory.
#[derive(Debug)]
pub struct HostBuffer {
    memory: Backend<DeviceBuffer, CudaHostBuffer>,
    dtype: Dtype,
    elements: usize,
}

impl HostBuffer {
    /// Allocates `elements` elements, all zero.
    ///
    /// # Errors
    ///
    /// Out of memory, or a failure of the driver.
    pub fn new(engine: &Engine, dtype: Dtype, elements: usize) -> Result<Self, Error> {
        let memory = map_backend!(&engine.backend, {
            Cpu(()) => engine.alloc(dtype, elements)?,
            Cuda(device) => {
                let bytes = elements.checked_mul(dtype.size());
                CudaHostBuffer::new(device, bytes.ok_or_else(|| TensorError::TooLarge { shape: vec![elements] })?)?
            },
        });
        Ok(HostBuffer { memory, dtype, elements })
    }

    /// The type of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The elements as a contiguous tensor that ops of the engine read.
    ///
    /// # Errors
    ///
    /// A shape of more elements than the buffer has.
    pub fn tensor(&self, shape: &[usize]) -> Result<TensorRef<'_>, Error> {
        on_backend!(&self.memory, {
            Cpu(buffer) => buffer.tensor(shape),
            Cuda(buffer) => {
                let (ptr, elements) = (buffer.ptr(), self.elements);
                // SAFETY: as in `DeviceArray::array`.
                Ok(unsafe { TensorRef::device_slice(ptr, self.dtype, elements, shape) }?.owned_by(buffer.owner()))
            },
        })
    }

    /// The elements as a contiguous tensor that ops of the engine write.
    ///
    /// # Errors
    ///
    /// A shape of more elements than the buffer has.
    pub fn tensor_mut(&mut self, shape: &[usize]) -> Result<TensorMut<'_>, Error> {
        on_backend!(&mut self.memory, {
            Cpu(buffer) => buffer.tensor_mut(shape),
            Cuda(buffer) => {
                let (ptr, elements) = (buffer.ptr(), self.elements);
                // SAFETY: as in `tensor`, and the borrow is exclusive.
                Ok(unsafe { TensorMut::device_slice(ptr, self.dtype, elements, shape) }?.owned_by(buffer.owner()))
            },
        })
    }

    /// Copies the elements, after everything launched on the device has finished.
    ///
    /// # Errors
    ///
    /// Another element type, or a fault of a kernel that ran before.
    pub fn read<T: Element>(&self) -> Result<Vec<T>, Error> {
        check_elements::<T>(self.dtype)?;
        let mut out = zeros::<T>(self.elements)?;
        let bytes = bytemuck::cast_slice_mut(&mut out);
        on_backend!(&self.memory, {
            Cpu(buffer) => buffer.read(bytes)?,
            Cuda(buffer) => buffer.read(0, bytes)?,
        });
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_place() {
        let engine = Engine::cpu();
        let stream = engine.stream().expect("a token");
        let mut numbers = DeviceArray::<i64>::zeroed(&engine, 4).expect("memory");
        numbers.write(&stream, 1, &[5, -1]).expect("they fit");
        numbers.write(&stream, 4, &[]).expect("an empty write fits anywhere");
        let error = numbers.write(&stream, 3, &[7, 7]).expect_err("one too many");
        assert!(matches!(error, Error::Tensor(TensorError::Extent { extent: 5, len: 4 })), "{error}");
        numbers.write(&stream, usize::MAX, &[7]).expect_err("out of bounds");
        assert_eq!((numbers.to_vec().expect("on the host"), numbers.len()), (vec![0, 5, -1, 0], 4));
    }
}
