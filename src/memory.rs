//! Device memory with a type of elements; host memory where the engine is the CPU.

use std::alloc::{self, Layout};

use half::{bf16, f16};

use crate::backend::{Backend, CudaBuffer, map_backend, on_backend};
use crate::lang::{F8E4M3, F8E5M2};
use crate::{Dtype, Element, Engine, Error, Stream, TensorError, TensorMut, TensorRef};

/// Memory of an engine with a type of elements. Freed on drop. `Send` and `Sync`.
///
/// A convenience for programs without a tensor library. Attention takes descriptors of any memory
/// ([`TensorRef::device`], [`TensorRef::host`]).
#[derive(Debug)]
pub struct DeviceBuffer {
    /// In host memory `u64` words, so that elements of every type are aligned.
    memory: Backend<Vec<u64>, CudaBuffer>,
    dtype: Dtype,
    elements: usize,
}

/// Refuses other elements than those of a type.
pub(crate) fn check_elements<T: Element>(dtype: Dtype) -> Result<(), Error> {
    let (have, want) = (format!("elements of {dtype}"), T::DTYPE.to_string());
    if dtype == T::DTYPE { Ok(()) } else { Err(Error::Elements { have, want }) }
}

impl Engine {
    /// Allocates memory and copies `data` into it. On the CPU it is host memory.
    ///
    /// # Errors
    ///
    /// Out of memory, or a failure of the driver.
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<DeviceBuffer, Error> {
        DeviceBuffer::upload(self, T::DTYPE, bytemuck::cast_slice(data))
    }

    /// Allocates `elements` elements, all zero.
    ///
    /// # Errors
    ///
    /// Out of memory, or a failure of the driver.
    pub fn alloc(&self, dtype: Dtype, elements: usize) -> Result<DeviceBuffer, Error> {
        DeviceBuffer::zeroed(self, dtype, elements)
    }

    /// Copies a buffer's elements to the host, after everything launched on the device has finished.
    ///
    /// # Errors
    ///
    /// Another element type, a buffer of another engine, or a fault of a kernel that ran before.
    pub fn download<T: Element>(&self, buffer: &DeviceBuffer) -> Result<Vec<T>, Error> {
        check_elements::<T>(buffer.dtype())?;
        self.backend.check("buffer", &buffer.memory)?;
        let mut out = zeros::<T>(buffer.elements())?;
        buffer.read(bytemuck::cast_slice_mut(&mut out))?;
        Ok(out)
    }

    /// Downloads elements of any type, converted to f32 (which is exact for every type).
    ///
    /// # Errors
    ///
    /// Bytes, which are no numbers by themselves; the errors of [`Engine::download`].
    pub fn download_f32(&self, buffer: &DeviceBuffer) -> Result<Vec<f32>, Error> {
        fn of<T: Element>(engine: &Engine, buffer: &DeviceBuffer) -> Result<Vec<f32>, Error> {
            Ok(engine.download::<T>(buffer)?.iter().map(|x| x.to_f32()).collect())
        }
        match buffer.dtype() {
            Dtype::F16 => of::<f16>(self, buffer),
            Dtype::Bf16 => of::<bf16>(self, buffer),
            Dtype::E4m3 => of::<F8E4M3>(self, buffer),
            Dtype::E5m2 => of::<F8E5M2>(self, buffer),
            Dtype::F32 | Dtype::U8 => of::<f32>(self, buffer),
        }
    }

    /// Allocates memory with these bytes: rows of a [`KvFormat`](crate::lang::KvFormat).
    ///
    /// # Errors
    ///
    /// The errors of [`Engine::upload`].
    pub fn upload_bytes(&self, bytes: &[u8]) -> Result<DeviceBuffer, Error> {
        DeviceBuffer::upload(self, Dtype::U8, bytes)
    }

    /// The bytes of a buffer of any type, as [`Engine::download`] copies them.
    ///
    /// # Errors
    ///
    /// The errors of [`Engine::download`].
    pub fn download_bytes(&self, buffer: &DeviceBuffer) -> Result<Vec<u8>, Error> {
        self.backend.check("buffer", &buffer.memory)?;
        let mut out = zeros(buffer.elements() * buffer.dtype().size())?;
        buffer.read(&mut out)?;
        Ok(out)
    }
}

impl DeviceBuffer {
    pub(crate) fn upload(engine: &Engine, dtype: Dtype, bytes: &[u8]) -> Result<Self, Error> {
        let memory = map_backend!(&engine.backend, {
            Cpu(()) => words_of(bytes)?,
            Cuda(device) => CudaBuffer::upload(device, bytes)?,
        });
        Ok(DeviceBuffer { memory, dtype, elements: bytes.len() / dtype.size() })
    }

    pub(crate) fn zeroed(engine: &Engine, dtype: Dtype, elements: usize) -> Result<Self, Error> {
        let bytes =
            elements.checked_mul(dtype.size()).ok_or_else(|| TensorError::TooLarge { shape: vec![elements] })?;
        let memory = map_backend!(&engine.backend, {
            Cpu(()) => zeros(bytes.div_ceil(8))?,
            Cuda(device) => CudaBuffer::zeroed(device, bytes)?,
        });
        Ok(DeviceBuffer { memory, dtype, elements })
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

    /// The device pointer; `None` for host memory.
    #[must_use]
    pub fn device_ptr(&self) -> Option<u64> {
        on_backend!(&self.memory, { Cpu(_) => None, Cuda(buffer) => Some(buffer.ptr()) })
    }

    /// The elements as a contiguous tensor to read.
    ///
    /// # Errors
    ///
    /// A shape of more elements than the buffer has.
    pub fn tensor(&self, shape: &[usize]) -> Result<TensorRef<'_>, Error> {
        on_backend!(&self.memory, {
            Cpu(words) => {
                let bytes = &bytemuck::cast_slice::<u64, u8>(words)[..self.elements * self.dtype.size()];
                Ok(TensorRef::of_bytes(self.dtype, bytes, shape)?)
            },
            Cuda(buffer) => {
                let (ptr, elements) = (buffer.ptr(), self.elements);
                // SAFETY: the memory outlives the borrow, and freeing it waits for the device. Its owner refuses other
                // devices, and orders later writes after the reads of runs.
                Ok(unsafe { TensorRef::device_slice(ptr, self.dtype, elements, shape) }?.owned_by(buffer.owner()))
            },
        })
    }

    /// The elements as a contiguous tensor to write.
    ///
    /// # Errors
    ///
    /// A shape of more elements than the buffer has.
    pub fn tensor_mut(&mut self, shape: &[usize]) -> Result<TensorMut<'_>, Error> {
        on_backend!(&mut self.memory, {
            Cpu(words) => {
                let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(words)[..self.elements * self.dtype.size()];
                Ok(TensorMut::of_bytes(self.dtype, bytes, shape)?)
            },
            Cuda(buffer) => {
                let (ptr, elements) = (buffer.ptr(), self.elements);
                // SAFETY: as in `tensor`, and the borrow is exclusive.
                Ok(unsafe { TensorMut::device_slice(ptr, self.dtype, elements, shape) }?.owned_by(buffer.owner()))
            },
        })
    }

    /// Sets every byte, in the order of the stream.
    ///
    /// # Errors
    ///
    /// A stream of another engine, or a failure of the driver.
    pub fn fill(&mut self, stream: &Stream, byte: u8) -> Result<(), Error> {
        on_backend!(&mut self.memory, {
            Cpu(words) => {
                stream.cpu()?;
                bytemuck::cast_slice_mut::<u64, u8>(words).fill(byte);
                Ok(())
            },
            Cuda(buffer) => Ok(buffer.fill(stream.cuda()?, byte)?),
        })
    }

    /// Copies `data` to the buffer from element `first` on, in the order of the stream: later runs and replays on it
    /// see the new elements. `data` may be changed on return; if it is pinned memory, this waits for the stream.
    ///
    /// # Errors
    ///
    /// Another element type, or more elements than fit; a stream of another engine, or one that is being captured (each
    /// replay would read `data` again); a failure of the driver. Nothing is written then.
    pub fn write<T: Element>(&mut self, stream: &Stream, first: usize, data: &[T]) -> Result<(), Error> {
        let at = self.offset(first, data)?;
        let bytes = bytemuck::cast_slice::<T, u8>(data);
        on_backend!(&mut self.memory, {
            Cpu(words) => write_host(stream, words, at, bytes),
            Cuda(buffer) => Ok(buffer.write(stream.cuda()?, at, bytes)?),
        })
    }

    /// Writes without waiting for a copy from pinned memory.
    ///
    /// # Errors
    ///
    /// The errors of [`DeviceBuffer::write`].
    ///
    /// # Safety
    ///
    /// Where `data` is memory that the CUDA driver knows (pinned, registered, managed), it is neither changed nor freed
    /// before the stream has executed the copy.
    pub unsafe fn write_async<T: Element>(&mut self, stream: &Stream, first: usize, data: &[T]) -> Result<(), Error> {
        let at = self.offset(first, data)?;
        let bytes = bytemuck::cast_slice::<T, u8>(data);
        on_backend!(&mut self.memory, {
            Cpu(words) => write_host(stream, words, at, bytes),
            // SAFETY: the caller guarantees it.
            Cuda(buffer) => Ok(unsafe { buffer.write_async(stream.cuda()?, at, bytes) }?),
        })
    }

    /// The offset in bytes of elements that are of the buffer's type and fit it.
    fn offset<T: Element>(&self, first: usize, data: &[T]) -> Result<usize, Error> {
        check_elements::<T>(self.dtype)?;
        let extent = (first as u64).saturating_add(data.len() as u64);
        if extent > self.elements as u64 {
            return Err(TensorError::Extent { extent, len: self.elements as u64 }.into());
        }
        Ok(first * self.dtype.size())
    }

    /// Copies all bytes to `out`, which has the same length.
    pub(crate) fn read(&self, out: &mut [u8]) -> Result<(), Error> {
        on_backend!(&self.memory, {
            Cpu(words) => {
                out.copy_from_slice(&bytemuck::cast_slice::<u64, u8>(words)[..out.len()]);
                Ok(())
            },
            Cuda(buffer) => Ok(buffer.download(0, out)?),
        })
    }
}

/// Writes bytes into host memory, which a stream of the CPU has at once.
fn write_host(stream: &Stream, words: &mut [u64], at: usize, bytes: &[u8]) -> Result<(), Error> {
    stream.cpu()?;
    bytemuck::cast_slice_mut::<u64, u8>(words)[at..at + bytes.len()].copy_from_slice(bytes);
    Ok(())
}

/// Bytes in words, the last of which is padded with zeros.
fn words_of(bytes: &[u8]) -> Result<Vec<u64>, Error> {
    let mut words = zeros(bytes.len().div_ceil(8))?;
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    Ok(words)
}

/// Zeros in host memory, or the error that there is not so much. `T` has a size.
pub(crate) fn zeros<T: bytemuck::Zeroable>(count: usize) -> Result<Vec<T>, Error> {
    let layout = Layout::array::<T>(count).map_err(|_| TensorError::TooLarge { shape: vec![count] })?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the size is not 0.
    let memory = unsafe { alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(Error::OutOfMemory { bytes: layout.size() });
    }
    // SAFETY: it is of this allocator, with the layout of `count` elements, which zeros are.
    Ok(unsafe { Vec::from_raw_parts(memory.cast(), count, count) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{DeviceArray, HostArray, HostBuffer};

    #[test]
    fn memory_that_there_is_not_is_an_error() {
        let engine = Engine::cpu();
        for count in [1 << 46, 1 << 60, usize::MAX / 4, usize::MAX] {
            let errors = [
                engine.alloc(Dtype::F32, count).err(),
                HostBuffer::new(&engine, Dtype::F16, count).err(),
                DeviceArray::<i64>::zeroed(&engine, count).err(),
                HostArray::<i32>::new(&engine, count).err(),
            ];
            for error in errors {
                let is_typed =
                    matches!(error, Some(Error::OutOfMemory { .. } | Error::Tensor(TensorError::TooLarge { .. })));
                assert!(is_typed, "{count}: {error:?}");
            }
        }
        assert_eq!(engine.alloc(Dtype::F16, 0).expect("nothing").elements(), 0);
    }

    #[test]
    fn writes_stay_inside_the_buffer() {
        let engine = Engine::cpu();
        let stream = engine.stream().expect("a token");
        let mut buffer = engine.upload(&[f16::ONE; 5]).expect("memory");
        buffer.write(&stream, 3, &[f16::from_f32(2.0), f16::from_f32(3.0)]).expect("it fits");
        buffer.write::<f16>(&stream, 5, &[]).expect("an empty write fits anywhere");
        assert_eq!(engine.download_f32(&buffer).expect("f16"), [1.0, 1.0, 1.0, 2.0, 3.0]);
        let error = buffer.write(&stream, 4, &[f16::ZERO; 2]).expect_err("one too many");
        assert!(matches!(error, Error::Tensor(TensorError::Extent { extent: 6, len: 5 })), "{error}");
        buffer.write(&stream, usize::MAX, &[f16::ZERO]).expect_err("out of bounds");
        let error = buffer.write(&stream, 0, &[1f32]).expect_err("another type");
        assert!(matches!(error, Error::Elements { .. }), "{error}");
        assert_eq!(engine.download_f32(&buffer).expect("f16"), [1.0, 1.0, 1.0, 2.0, 3.0]);
        // SAFETY: this is no memory of the driver.
        unsafe { buffer.write_async(&stream, 0, &[f16::ZERO]) }.expect("it fits");
        // SAFETY: as above.
        unsafe { buffer.write_async(&stream, 5, &[f16::ZERO]) }.expect_err("one too many");
        assert_eq!(engine.download_f32(&buffer).expect("f16"), [0.0, 1.0, 1.0, 2.0, 3.0]);
    }
}
