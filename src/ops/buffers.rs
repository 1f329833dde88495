//! Memory of ops beside tensors: arrays of integers, and pinned host memory.

use super::{Array, ArrayMut, Number};
use crate::{
    DeviceBuffer, Dtype, Engine, Error, TensorMut, TensorRef,
    backend::{Backend, CudaBuffer, CudaHostBuffer, map_backend, on_backend},
    memory::check_elements,
    tensor::{Element, TensorError},
};

/// An array of integers in memory of an engine: on the device, or on the host where the engine is the CPU. Freed on
/// drop.
///
/// A convenience for programs without a tensor library. Ops take descriptors of any memory ([`Array::device`],
/// [`Array::host`]).
#[derive(Debug)]
pub struct Numbers<T> {
    memory: Backend<Vec<T>, CudaBuffer>,
    len: usize,
}

impl<T: Number> Numbers<T> {
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
        Ok(Numbers { memory, len: values.len() })
    }

    /// Allocates `len` zeros.
    ///
    /// # Errors
    ///
    /// Out of memory, or a failure of the driver.
    pub fn zeroed(engine: &Engine, len: usize) -> Result<Self, Error> {
        Self::upload(engine, &vec![T::zeroed(); len])
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
                let mut values = vec![T::zeroed(); self.len];
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
                // SAFETY: as in `Numbers::array`.
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
        let mut out = vec![T::from_f32(0.0); self.elements];
        let bytes = bytemuck::cast_slice_mut(&mut out);
        on_backend!(&self.memory, {
            Cpu(buffer) => buffer.read(bytes)?,
            Cuda(buffer) => buffer.read(0, bytes)?,
        });
        Ok(out)
    }
}
