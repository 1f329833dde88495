//! Memory that ops need beside tensors: numbers of an engine, and host memory that a device reaches.

#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use super::{Array, ArrayMut, Number};
use crate::{Dtype, Engine, Error, TensorMut, TensorRef, engine::Backend, tensor::Element};

/// Numbers in memory of an engine: of the device, or of the host where the engine is the CPU. Freed on drop.
///
/// A convenience for programs without a tensor library: ops take descriptors of anybody's memory ([`Array::device`], [`Array::host`]).
#[derive(Debug)]
pub struct Numbers<T> {
    memory: Memory<T>,
}

#[derive(Debug)]
enum Memory<T> {
    Host(Vec<T>),
    /// And how many.
    #[cfg(feature = "cuda")]
    Cuda(cuda::DeviceBuffer, usize),
}

impl<T: Number> Numbers<T> {
    /// A copy of numbers.
    ///
    /// # Errors
    ///
    /// No memory, or a failure of the driver.
    pub fn upload(engine: &Engine, values: &[T]) -> Result<Self, Error> {
        let memory = match &engine.backend {
            Backend::Cpu => Memory::Host(values.to_vec()),
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                Memory::Cuda(cuda::DeviceBuffer::upload(device, bytemuck::cast_slice(values))?, values.len())
            }
        };
        Ok(Numbers { memory })
    }

    /// So many zeros.
    ///
    /// # Errors
    ///
    /// No memory, or a failure of the driver.
    pub fn zeroed(engine: &Engine, len: usize) -> Result<Self, Error> {
        Self::upload(engine, &vec![T::zeroed(); len])
    }

    /// The numbers, to be read.
    #[must_use]
    pub fn array(&self) -> Array<'_, T> {
        match &self.memory {
            Memory::Host(values) => Array::host(values),
            // SAFETY: it holds as many; it outlives the borrow, and freeing it waits for the device.
            #[cfg(feature = "cuda")]
            Memory::Cuda(buffer, len) => unsafe { Array::device(buffer.ptr(), *len) },
        }
    }

    /// The numbers, to be written.
    #[must_use]
    pub fn array_mut(&mut self) -> ArrayMut<'_, T> {
        match &mut self.memory {
            Memory::Host(values) => ArrayMut::host(values),
            // SAFETY: as in `array`, and the borrow is exclusive.
            #[cfg(feature = "cuda")]
            Memory::Cuda(buffer, len) => unsafe { ArrayMut::device(buffer.ptr(), *len) },
        }
    }

    /// A copy, after everything that was given to the device has finished.
    ///
    /// # Errors
    ///
    /// What a kernel ran into.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        match &self.memory {
            Memory::Host(values) => Ok(values.clone()),
            #[cfg(feature = "cuda")]
            Memory::Cuda(buffer, len) => {
                let mut values = vec![T::zeroed(); *len];
                buffer.download(0, bytemuck::cast_slice_mut(&mut values))?;
                Ok(values)
            }
        }
    }
}

/// Host memory that the engine's device reads and writes itself (pinned), with a type of elements: where pages are swapped to. Freed on drop. Where the engine is the CPU
/// it is ordinary memory.
#[derive(Debug)]
pub struct HostBuffer {
    inner: Inner,
    dtype: Dtype,
    elements: usize,
}

#[derive(Debug)]
enum Inner {
    Cpu(crate::DeviceBuffer),
    #[cfg(feature = "cuda")]
    Cuda(cuda::HostBuffer),
}

impl HostBuffer {
    /// So many elements, all zero.
    ///
    /// # Errors
    ///
    /// No memory, or a failure of the driver.
    pub fn new(engine: &Engine, dtype: Dtype, elements: usize) -> Result<Self, Error> {
        let inner = match &engine.backend {
            Backend::Cpu => Inner::Cpu(engine.alloc(dtype, elements)?),
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                let bytes = elements.checked_mul(dtype.size());
                let bytes = bytes.ok_or_else(|| crate::tensor::TensorError::TooLarge { shape: vec![elements] })?;
                Inner::Cuda(cuda::HostBuffer::new(device, bytes)?)
            }
        };
        Ok(HostBuffer { inner, dtype, elements })
    }

    /// Type of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// How many elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The elements as a contiguous tensor that ops of the engine read.
    ///
    /// # Errors
    ///
    /// A shape of more elements than there are.
    pub fn tensor(&self, shape: &[usize]) -> Result<TensorRef<'_>, Error> {
        match &self.inner {
            Inner::Cpu(buffer) => buffer.tensor(shape),
            #[cfg(feature = "cuda")]
            Inner::Cuda(buffer) => {
                let strides = strides(shape, self.elements)?;
                // SAFETY: the extents are checked. The memory outlives the borrow, and freeing it waits for the device.
                Ok(unsafe { TensorRef::device(buffer.ptr(), self.dtype, shape, &strides) }?)
            }
        }
    }

    /// The elements as a contiguous tensor that ops of the engine write.
    ///
    /// # Errors
    ///
    /// A shape of more elements than there are.
    pub fn tensor_mut(&mut self, shape: &[usize]) -> Result<TensorMut<'_>, Error> {
        match &mut self.inner {
            Inner::Cpu(buffer) => buffer.tensor_mut(shape),
            #[cfg(feature = "cuda")]
            Inner::Cuda(buffer) => {
                let strides = strides(shape, self.elements)?;
                // SAFETY: as in `tensor`, and the borrow is exclusive.
                Ok(unsafe { TensorMut::device(buffer.ptr(), self.dtype, shape, &strides) }?)
            }
        }
    }

    /// A copy of the elements, after everything that was given to the device has finished.
    ///
    /// # Errors
    ///
    /// Elements of another type, or what a kernel ran into.
    pub fn read<T: Element>(&self) -> Result<Vec<T>, Error> {
        self.check::<T>()?;
        let mut out = vec![T::from_f32(0.0); self.elements];
        match &self.inner {
            Inner::Cpu(buffer) => buffer.read(bytemuck::cast_slice_mut(&mut out))?,
            #[cfg(feature = "cuda")]
            Inner::Cuda(buffer) => buffer.read(0, bytemuck::cast_slice_mut(&mut out))?,
        }
        Ok(out)
    }

    fn check<T: Element>(&self) -> Result<(), Error> {
        let (have, want) = (format!("elements of {}", self.dtype), T::DTYPE.to_string());
        if self.dtype == T::DTYPE { Ok(()) } else { Err(Error::Elements { have, want }) }
    }
}

/// Contiguous strides of a shape that the elements suffice for.
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
