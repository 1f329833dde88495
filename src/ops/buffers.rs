//! Memory of ops beside tensors: arrays of integers, and pinned host memory.

#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use super::{Array, ArrayMut, Number};
use crate::{Dtype, Engine, Error, TensorMut, TensorRef, engine::Backend, tensor::Element};

/// An array of integers in memory of an engine: on the device, or on the host where the engine is the CPU. Freed on
/// drop.
///
/// A convenience for programs without a tensor library. Ops take descriptors of any memory ([`Array::device`],
/// [`Array::host`]).
#[derive(Debug)]
pub struct Numbers<T> {
    memory: NumbersMemory<T>,
}

#[derive(Debug)]
enum NumbersMemory<T> {
    Host(Vec<T>),
    /// The buffer and its number of elements.
    #[cfg(feature = "cuda")]
    Cuda(cuda::DeviceBuffer, usize),
}

impl<T: Number> Numbers<T> {
    /// Allocates an array and copies `values` into it.
    ///
    /// # Errors
    ///
    /// Out of memory, or a failure of the driver.
    pub fn upload(engine: &Engine, values: &[T]) -> Result<Self, Error> {
        let memory = match &engine.backend {
            Backend::Cpu => NumbersMemory::Host(values.to_vec()),
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                NumbersMemory::Cuda(cuda::DeviceBuffer::upload(device, bytemuck::cast_slice(values))?, values.len())
            }
        };
        Ok(Numbers { memory })
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
        match &self.memory {
            NumbersMemory::Host(values) => Array::host(values),
            // SAFETY: the buffer holds `len` elements. It outlives the borrow, and freeing it waits for the device. Its
            // owner refuses other devices, and orders later writes after the reads of ops.
            #[cfg(feature = "cuda")]
            NumbersMemory::Cuda(buffer, len) => unsafe { Array::device(buffer.ptr(), *len) }.owned_by(buffer.owner()),
        }
    }

    /// The array to write.
    #[must_use]
    pub fn array_mut(&mut self) -> ArrayMut<'_, T> {
        match &mut self.memory {
            NumbersMemory::Host(values) => ArrayMut::host(values),
            #[cfg(feature = "cuda")]
            NumbersMemory::Cuda(buffer, len) => {
                // SAFETY: as in `array`, and the borrow is exclusive.
                unsafe { ArrayMut::device(buffer.ptr(), *len) }.owned_by(buffer.owner())
            }
        }
    }

    /// Copies the array to the host, after everything launched on the device has finished.
    ///
    /// # Errors
    ///
    /// A fault of a kernel that ran before.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        match &self.memory {
            NumbersMemory::Host(values) => Ok(values.clone()),
            #[cfg(feature = "cuda")]
            NumbersMemory::Cuda(buffer, len) => {
                let mut values = vec![T::zeroed(); *len];
                buffer.download(0, bytemuck::cast_slice_mut(&mut values))?;
                Ok(values)
            }
        }
    }
}

/// Pinned host memory with a type of elements, which the engine's device accesses directly: the destination of swapped
/// pages. Freed on drop. Where the engine is the CPU it is ordinary memory.
#[derive(Debug)]
pub struct HostBuffer {
    memory: HostBufferMemory,
    dtype: Dtype,
    elements: usize,
}

#[derive(Debug)]
enum HostBufferMemory {
    Cpu(crate::DeviceBuffer),
    #[cfg(feature = "cuda")]
    Cuda(cuda::HostBuffer),
}

impl HostBuffer {
    /// Allocates `elements` elements, all zero.
    ///
    /// # Errors
    ///
    /// Out of memory, or a failure of the driver.
    pub fn new(engine: &Engine, dtype: Dtype, elements: usize) -> Result<Self, Error> {
        let memory = match &engine.backend {
            Backend::Cpu => HostBufferMemory::Cpu(engine.alloc(dtype, elements)?),
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                let bytes = elements.checked_mul(dtype.size());
                let bytes = bytes.ok_or_else(|| crate::tensor::TensorError::TooLarge { shape: vec![elements] })?;
                HostBufferMemory::Cuda(cuda::HostBuffer::new(device, bytes)?)
            }
        };
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
        match &self.memory {
            HostBufferMemory::Cpu(buffer) => buffer.tensor(shape),
            #[cfg(feature = "cuda")]
            HostBufferMemory::Cuda(buffer) => {
                let strides = strides(shape, self.elements)?;
                // SAFETY: as in `Numbers::array`; the extents are checked.
                Ok(unsafe { TensorRef::device(buffer.ptr(), self.dtype, shape, &strides) }?.owned_by(buffer.owner()))
            }
        }
    }

    /// The elements as a contiguous tensor that ops of the engine write.
    ///
    /// # Errors
    ///
    /// A shape of more elements than the buffer has.
    pub fn tensor_mut(&mut self, shape: &[usize]) -> Result<TensorMut<'_>, Error> {
        match &mut self.memory {
            HostBufferMemory::Cpu(buffer) => buffer.tensor_mut(shape),
            #[cfg(feature = "cuda")]
            HostBufferMemory::Cuda(buffer) => {
                let strides = strides(shape, self.elements)?;
                // SAFETY: as in `tensor`, and the borrow is exclusive.
                Ok(unsafe { TensorMut::device(buffer.ptr(), self.dtype, shape, &strides) }?.owned_by(buffer.owner()))
            }
        }
    }

    /// Copies the elements, after everything launched on the device has finished.
    ///
    /// # Errors
    ///
    /// Another element type, or a fault of a kernel that ran before.
    pub fn read<T: Element>(&self) -> Result<Vec<T>, Error> {
        self.check::<T>()?;
        let mut out = vec![T::from_f32(0.0); self.elements];
        match &self.memory {
            HostBufferMemory::Cpu(buffer) => buffer.read(bytemuck::cast_slice_mut(&mut out))?,
            #[cfg(feature = "cuda")]
            HostBufferMemory::Cuda(buffer) => buffer.read(0, bytemuck::cast_slice_mut(&mut out))?,
        }
        Ok(out)
    }

    fn check<T: Element>(&self) -> Result<(), Error> {
        let (have, want) = (format!("elements of {}", self.dtype), T::DTYPE.to_string());
        if self.dtype == T::DTYPE { Ok(()) } else { Err(Error::Elements { have, want }) }
    }
}

/// Contiguous strides of a shape that fits the buffer.
#[cfg(feature = "cuda")]
fn strides(shape: &[usize], elements: usize) -> Result<Vec<i64>, Error> {
    let too_large = || crate::tensor::TensorError::TooLarge { shape: shape.to_vec() };
    let extent = shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e)).ok_or_else(too_large)?;
    if extent > elements {
        return Err(crate::tensor::TensorError::Extent { extent: extent as u64, len: elements as u64 }.into());
    }
    let mut strides = vec![1i64; shape.len()];
    for i in (1..shape.len()).rev() {
        let inner = i64::try_from(shape[i].max(1)).map_err(|_| too_large())?;
        strides[i - 1] = strides[i].checked_mul(inner).ok_or_else(too_large)?;
    }
    Ok(strides)
}
