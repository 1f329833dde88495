//! Checks of batches whose lengths are on the device, without planning.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::backend::{Backend, CudaBatchChecker, map_backend, on_backend};
use crate::batch::{BatchError, DeviceBatch};
use crate::{BatchCapacity, Engine, Error, Stream};

/// Checks batches whose arrays are in device memory ([`DeviceBatch`]), for an engine that plans on the host and keeps
/// the arrays that its kernels read on the device. It is optional: plans check their batches themselves. `Send` and
/// `Sync`.
///
/// ```
/// use attn::{BatchChecker, batch::{BatchError, DeviceBatch, DevicePages, I32Slice}, Error, prelude::*};
///
/// let engine = Engine::cpu();
/// let (checker, stream) = (BatchChecker::new(&engine)?, engine.stream()?);
/// let capacity = BatchCapacity::decode(2, 100).in_pages(16, 8);
/// // on a CUDA device: `I32Slice::device`
/// let table = DevicePages::Padded { indices: I32Slice::host(&[3, 9, -1, 4, -1, -1]), max_pages: 3 };
/// let batch = DeviceBatch::paged(I32Slice::host(&[0, 1, 2]), I32Slice::host(&[20, 5]), table);
/// checker.check(&stream, &batch, &capacity)?;
/// let error = checker.status(&stream).unwrap_err();
/// assert!(matches!(error, Error::Batch(BatchError::BlockTablePage { request: 0, index: 1, page: 9, num_pages: 8 })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct BatchChecker {
    backend: Backend<CpuBatchChecker, Box<CudaBatchChecker>>,
}

/// The result of the last check.
#[derive(Debug)]
struct CpuBatchChecker(Mutex<Result<(), BatchError>>);

impl BatchChecker {
    /// A checker for an engine. On CUDA this compiles a kernel, unless it is in the cache.
    ///
    /// # Errors
    ///
    /// On CUDA, neither a kernel nor a compiler, or out of memory.
    pub fn new(engine: &Engine) -> Result<Self, Error> {
        let backend = map_backend!(&engine.backend, {
            Cpu(()) => CpuBatchChecker(Mutex::new(Ok(()))),
            Cuda(device) => Box::new(CudaBatchChecker::new(device)?),
        });
        Ok(BatchChecker { backend })
    }

    /// Checks a batch in the order of the stream: prefix sums start at 0 and never decrease, lengths fit their pages,
    /// pages lie in the pool, and the batch is within the capacity. On CUDA it is one small launch that can be captured
    /// and waits for nothing.
    ///
    /// # Errors
    ///
    /// Errors that show without reading the arrays: another memory, lengths that contradict each other, more requests
    /// than the capacity; on CUDA a batch with levels, which plans check themselves. [`BatchChecker::status`] reports
    /// errors in the content.
    pub fn check(&self, stream: &Stream, batch: &DeviceBatch<'_>, capacity: &BatchCapacity) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(checker) => stream.cpu().and_then(|()| checker.check(batch, capacity)),
            Cuda(checker) => Ok(checker.check(stream.cuda()?, batch, capacity)?),
        })
    }

    /// The error of the last checked batch, if any; one of several. On CUDA this waits for the device.
    ///
    /// # Errors
    ///
    /// The error of the batch. On CUDA also a stream that is being captured, and a fault of a kernel that ran before.
    pub fn status(&self, stream: &Stream) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(checker) => stream.cpu().and_then(|()| Ok(checker.found().clone()?)),
            Cuda(checker) => Ok(checker.status(stream.cuda()?)?),
        })
    }
}

impl CpuBatchChecker {
    fn check(&self, batch: &DeviceBatch<'_>, capacity: &BatchCapacity) -> Result<(), Error> {
        let requests = batch.requests()?;
        if requests > capacity.requests as usize {
            let capacity = capacity.requests;
            return Err(BatchError::Capacity { what: "requests", count: requests, capacity }.into());
        }
        *self.found() = match batch.layout(capacity.pages) {
            Ok(Some(layout)) => capacity.check(&layout),
            Ok(None) => return Err(Error::Backend { what: "batch", got: "a CUDA device", want: "the CPU" }),
            Err(error @ BatchError::OtherKeys { .. }) => return Err(error.into()),
            Err(error) => Err(error),
        };
        Ok(())
    }

    fn found(&self) -> MutexGuard<'_, Result<(), BatchError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
