//! Memory of an engine: of the device, or of the host where the engine is the CPU.

use half::{bf16, f16};

use crate::{
    Dtype, Engine, Error, TensorMut, TensorRef,
    engine::Backend,
    lang::{F8E4M3, F8E5M2},
    stream::Stream,
    tensor::{Element, TensorError},
};
#[cfg(feature = "cuda")]
use attn_kernels::cuda;

/// Memory of an engine, with a type of elements. Freed on drop. `Send` and `Sync`.
///
/// A convenience for programs without a tensor library: attention itself takes descriptors of anybody's memory
/// ([`TensorRef::device`], [`TensorRef::host`]).
#[derive(Debug)]
pub struct DeviceBuffer {
    memory: Memory,
    dtype: Dtype,
    elements: usize,
}

#[derive(Debug)]
enum Memory {
    /// Words, so that elements are aligned.
    Host(Vec<u64>),
    #[cfg(feature = "cuda")]
    Cuda(cuda::DeviceBuffer),
}

impl DeviceBuffer {
    pub(crate) fn upload(engine: &Engine, dtype: Dtype, bytes: &[u8]) -> Result<Self, Error> {
        let memory = match &engine.backend {
            Backend::Cpu => {
                let mut words = vec![0u64; bytes.len().div_ceil(8)];
                bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
                Memory::Host(words)
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => Memory::Cuda(cuda::DeviceBuffer::upload(device, bytes)?),
        };
        Ok(DeviceBuffer { memory, dtype, elements: bytes.len() / dtype.size() })
    }

    pub(crate) fn zeroed(engine: &Engine, dtype: Dtype, elements: usize) -> Result<Self, Error> {
        let bytes =
            elements.checked_mul(dtype.size()).ok_or_else(|| TensorError::TooLarge { shape: vec![elements] })?;
        let memory = match &engine.backend {
            Backend::Cpu => Memory::Host(vec![0u64; bytes.div_ceil(8)]),
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                let buffer = cuda::DeviceBuffer::new(device, bytes)?;
                let stream = cuda::Stream::new(device)?;
                buffer.fill(&stream, 0)?;
                stream.synchronize()?;
                Memory::Cuda(buffer)
            }
        };
        Ok(DeviceBuffer { memory, dtype, elements })
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

    /// The device pointer; `None` for host memory.
    #[must_use]
    pub fn device_ptr(&self) -> Option<u64> {
        match &self.memory {
            Memory::Host(_) => None,
            #[cfg(feature = "cuda")]
            Memory::Cuda(buffer) => Some(buffer.ptr()),
        }
    }

    /// The elements as a contiguous tensor, to be read.
    ///
    /// # Errors
    ///
    /// A shape of more elements than there are.
    pub fn tensor(&self, shape: &[usize]) -> Result<TensorRef<'_>, Error> {
        match &self.memory {
            Memory::Host(words) => {
                let bytes = &bytemuck::cast_slice::<u64, u8>(words)[..self.elements * self.dtype.size()];
                Ok(match self.dtype {
                    Dtype::F16 => TensorRef::host(bytemuck::cast_slice::<u8, f16>(bytes), shape)?,
                    Dtype::Bf16 => TensorRef::host(bytemuck::cast_slice::<u8, bf16>(bytes), shape)?,
                    Dtype::F32 => TensorRef::host(bytemuck::cast_slice::<u8, f32>(bytes), shape)?,
                    Dtype::E4m3 => TensorRef::host(bytemuck::cast_slice::<u8, F8E4M3>(bytes), shape)?,
                    Dtype::E5m2 => TensorRef::host(bytemuck::cast_slice::<u8, F8E5M2>(bytes), shape)?,
                })
            }
            #[cfg(feature = "cuda")]
            Memory::Cuda(buffer) => {
                let strides = self.strides(shape)?;
                // SAFETY: the extents are checked. The memory outlives the borrow, and freeing it waits for the device.
                Ok(unsafe { TensorRef::device(buffer.ptr(), self.dtype, shape, &strides) }?)
            }
        }
    }

    /// The elements as a contiguous tensor, to be written.
    ///
    /// # Errors
    ///
    /// A shape of more elements than there are.
    pub fn tensor_mut(&mut self, shape: &[usize]) -> Result<TensorMut<'_>, Error> {
        #[cfg(feature = "cuda")]
        let strides = self.strides(shape)?;
        match &mut self.memory {
            Memory::Host(words) => {
                let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(words)[..self.elements * self.dtype.size()];
                Ok(match self.dtype {
                    Dtype::F16 => TensorMut::host(bytemuck::cast_slice_mut::<u8, f16>(bytes), shape)?,
                    Dtype::Bf16 => TensorMut::host(bytemuck::cast_slice_mut::<u8, bf16>(bytes), shape)?,
                    Dtype::F32 => TensorMut::host(bytemuck::cast_slice_mut::<u8, f32>(bytes), shape)?,
                    Dtype::E4m3 => TensorMut::host(bytemuck::cast_slice_mut::<u8, F8E4M3>(bytes), shape)?,
                    Dtype::E5m2 => TensorMut::host(bytemuck::cast_slice_mut::<u8, F8E5M2>(bytes), shape)?,
                })
            }
            #[cfg(feature = "cuda")]
            Memory::Cuda(buffer) => {
                // SAFETY: as in `tensor`, and the borrow is exclusive.
                Ok(unsafe { TensorMut::device(buffer.ptr(), self.dtype, shape, &strides) }?)
            }
        }
    }

    /// Copies elements in, from element `first` on, in the order of the stream: runs and replays that are given to it afterwards see them. `data`
    /// may be reused on return; if it is in pinned memory, when the stream has got there.
    ///
    /// # Errors
    ///
    /// Elements of another type, or more of them than there is room for; a stream of another engine, or one that is being captured (replays would read `data`
    /// anew); a failure of the driver. Nothing is written then.
    pub fn write<T: Element>(&mut self, stream: &Stream, first: usize, data: &[T]) -> Result<(), Error> {
        if self.dtype != T::DTYPE {
            let (have, want) = (format!("elements of {}", self.dtype), T::DTYPE.to_string());
            return Err(Error::Elements { have, want });
        }
        let extent = (first as u64).saturating_add(data.len() as u64);
        if extent > self.elements as u64 {
            return Err(TensorError::Extent { extent, len: self.elements as u64 }.into());
        }
        let (at, bytes) = (first * self.dtype.size(), bytemuck::cast_slice::<T, u8>(data));
        match &mut self.memory {
            Memory::Host(words) => {
                stream.check_cpu()?;
                bytemuck::cast_slice_mut::<u64, u8>(words)[at..at + bytes.len()].copy_from_slice(bytes);
            }
            #[cfg(feature = "cuda")]
            Memory::Cuda(buffer) => buffer.write(stream.cuda()?, at, bytes)?,
        }
        Ok(())
    }

    /// Contiguous strides of a shape that the elements suffice for.
    #[cfg(feature = "cuda")]
    fn strides(&self, shape: &[usize]) -> Result<Vec<i64>, Error> {
        let too_large = || TensorError::TooLarge { shape: shape.to_vec() };
        let extent = shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e)).ok_or_else(too_large)?;
        if extent > self.elements {
            return Err(TensorError::Extent { extent: extent as u64, len: self.elements as u64 }.into());
        }
        let mut strides = vec![1i64; shape.len()];
        for i in (1..shape.len()).rev() {
            let inner = i64::try_from(shape[i].max(1)).map_err(|_| too_large())?;
            strides[i - 1] = strides[i].checked_mul(inner).ok_or_else(too_large)?;
        }
        Ok(strides)
    }

    /// Copies all bytes out; `out` is as long.
    pub(crate) fn read(&self, out: &mut [u8]) -> Result<(), Error> {
        match &self.memory {
            Memory::Host(words) => out.copy_from_slice(&bytemuck::cast_slice::<u64, u8>(words)[..out.len()]),
            #[cfg(feature = "cuda")]
            Memory::Cuda(buffer) => buffer.download(0, out)?,
        }
        Ok(())
    }
}

/// Checks that a buffer is of the engine.
pub(crate) fn check_same(engine: &Engine, buffer: &DeviceBuffer) -> Result<(), Error> {
    let got = match &buffer.memory {
        Memory::Host(_) => "the CPU",
        #[cfg(feature = "cuda")]
        Memory::Cuda(_) => "a CUDA device",
    };
    let want = engine.backend.name();
    if got == want { Ok(()) } else { Err(Error::Backend { what: "buffer", got, want }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_written_where_they_belong_or_not_at_all() {
        let engine = Engine::cpu();
        let stream = engine.stream().expect("a token");
        let mut buffer = engine.upload(&[f16::ONE; 5]).expect("memory");
        buffer.write(&stream, 3, &[f16::from_f32(2.0), f16::from_f32(3.0)]).expect("it fits");
        buffer.write::<f16>(&stream, 5, &[]).expect("nothing fits anywhere");
        assert_eq!(engine.download_f32(&buffer).expect("f16"), [1.0, 1.0, 1.0, 2.0, 3.0]);
        let error = buffer.write(&stream, 4, &[f16::ZERO; 2]).expect_err("one too many");
        assert!(matches!(error, Error::Tensor(TensorError::Extent { extent: 6, len: 5 })), "{error}");
        buffer.write(&stream, usize::MAX, &[f16::ZERO]).expect_err("far off");
        let error = buffer.write(&stream, 0, &[1f32]).expect_err("another type");
        assert!(matches!(error, Error::Elements { .. }), "{error}");
        assert_eq!(engine.download_f32(&buffer).expect("f16"), [1.0, 1.0, 1.0, 2.0, 3.0]);
    }
}
