//! What the host and a device exchange in every step: small uploads, and small results.

use super::{ArrayMut, DeviceArray, Number};
use crate::backend::{Backend, CudaHostBuffer, CudaStaging, map_backend, on_backend};
use crate::memory::zeros;
use crate::{Engine, Error, Stream, TensorError};

/// Pinned memory for uploads that occur in every step. An upload is one copy, which the driver need not stage again,
/// and its source may be changed at once. There are two slots, so that the host may run one upload ahead of the device.
#[derive(Debug)]
pub struct Staging(Backend<(), CudaStaging>);

impl Staging {
    /// Slots for uploads of up to `bytes` bytes. Larger ones allocate again.
    ///
    /// # Errors
    ///
    /// No memory that can be pinned, or a failure of the driver.
    pub fn new(engine: &Engine, bytes: usize) -> Result<Self, Error> {
        Ok(Staging(map_backend!(&engine.backend, {
            Cpu(()) => (),
            Cuda(device) => {
                let mut staging = CudaStaging::new(device);
                staging.reserve(bytes)?;
                staging
            },
        })))
    }

    /// Copies `values` to the start of an array, in the order of the stream. Waits for the last but one upload.
    ///
    /// # Errors
    ///
    /// More values than fit; an array or a stream of another engine, or a stream that is being captured; a failure of
    /// the driver. Nothing is written then.
    pub fn write<T: Number>(&mut self, stream: &Stream, to: &mut DeviceArray<T>, values: &[T]) -> Result<(), Error> {
        match &mut self.0 {
            Backend::Cpu(()) => to.write(stream, 0, values),
            #[cfg(feature = "cuda")]
            Backend::Cuda(staging) => {
                let (extent, len) = (values.len() as u64, to.len() as u64);
                if extent > len {
                    return Err(TensorError::Extent { extent, len }.into());
                }
                Ok(staging.upload(stream.cuda()?, to.cuda()?, bytemuck::cast_slice(values))?)
            }
            #[cfg(not(feature = "cuda"))]
            Backend::Cuda(never, _) => match *never {},
        }
    }
}

/// An array in pinned host memory that kernels of the engine write directly: results that the host reads after each
/// step, without a copy from the device. Freed on drop. Where the engine is the CPU it is ordinary memory.
#[derive(Debug)]
pub struct HostArray<T> {
    memory: Backend<Vec<T>, CudaHostBuffer>,
    len: usize,
}

impl<T: Number> HostArray<T> {
    /// Allocates `len` zeros.
    ///
    /// # Errors
    ///
    /// No memory that can be pinned, or a failure of the driver.
    pub fn new(engine: &Engine, len: usize) -> Result<Self, Error> {
        let memory = map_backend!(&engine.backend, {
            Cpu(()) => zeros(len)?,
            Cuda(device) => {
                let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| TensorError::TooLarge { shape: vec![len] })?;
                CudaHostBuffer::new(device, bytes)?
            },
        });
        Ok(HostArray { memory, len })
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

    /// The array, for ops of the engine to write.
    #[must_use]
    pub fn array_mut(&mut self) -> ArrayMut<'_, T> {
        on_backend!(&mut self.memory, {
            Cpu(values) => ArrayMut::host(values),
            // SAFETY: the buffer holds `len` elements at an address that host and device share. It outlives the borrow,
            // and freeing it waits for the device. Its owner refuses other devices.
            Cuda(buffer) => unsafe { ArrayMut::device(buffer.ptr(), self.len) }.owned_by(buffer.owner()),
        })
    }

    /// The first `len` entries, once everything that was launched on the stream has finished.
    ///
    /// # Errors
    ///
    /// More entries than there are; a stream of another engine, or one that is being captured; a fault of a kernel that
    /// ran before.
    pub fn read(&self, stream: &Stream, len: usize) -> Result<Vec<T>, Error> {
        if len > self.len {
            return Err(TensorError::Extent { extent: len as u64, len: self.len as u64 }.into());
        }
        on_backend!(&self.memory, {
            Cpu(values) => {
                stream.cpu()?;
                Ok(values[..len].to_vec())
            },
            Cuda(buffer) => {
                let mut out = zeros(len)?;
                buffer.read_after(stream.cuda()?, bytemuck::cast_slice_mut(&mut out))?;
                Ok(out)
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_and_results_stay_inside() {
        let engine = Engine::cpu();
        let stream = engine.stream().expect("a token");
        let (mut staging, mut to) =
            (Staging::new(&engine, 32).expect("memory"), DeviceArray::<i64>::zeroed(&engine, 4).expect("memory"));
        staging.write(&stream, &mut to, &[5, 6]).expect("they fit");
        assert_eq!(to.to_vec().expect("on the host"), [5, 6, 0, 0]);
        staging.write(&stream, &mut to, &[1; 5]).expect_err("one too many");
        let results = HostArray::<i32>::new(&engine, 3).expect("memory");
        assert_eq!((results.read(&stream, 2).expect("they are there"), results.len()), (vec![0; 2], 3));
        results.read(&stream, 4).expect_err("one too many");
    }
}
