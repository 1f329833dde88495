//! Batches whose lengths are on the device, checked there, without planning.

use std::sync::{Mutex, PoisonError};

#[cfg(feature = "cuda")]
use attn_kernels::cuda;

use crate::{
    BatchCapacity, Engine, Error, Stream,
    batch::{BatchError, DeviceBatch},
    engine::Backend,
};

/// Checks batches in memory of the device ([`DeviceBatch`]): for an engine that plans on the host, and holds on the device what its kernels read. It is optional: plans check
/// what they are given. `Send` and `Sync`.
///
/// ```
/// use attn::{BatchChecker, batch::{BatchError, DeviceBatch, DevicePages, Ints}, prelude::*};
///
/// let engine = Engine::cpu();
/// let (checker, stream) = (BatchChecker::new(&engine)?, engine.stream()?);
/// let capacity = BatchCapacity::decode(2, 100).in_pages(16, 8);
/// // on a CUDA device: `Ints::device`
/// let table = DevicePages::Padded { indices: Ints::host(&[3, 9, -1, 4, -1, -1]), max_pages: 3 };
/// let batch = DeviceBatch::paged(Ints::host(&[0, 1, 2]), Ints::host(&[20, 5]), table);
/// checker.check(&stream, &batch, &capacity)?;
/// let error = checker.status(&stream).unwrap_err();
/// assert!(matches!(error, Error::Batch(BatchError::BlockTablePage { request: 0, index: 1, page: 9, num_pages: 8 })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct BatchChecker {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    /// What the last check found.
    Cpu(Mutex<Result<(), BatchError>>),
    #[cfg(feature = "cuda")]
    Cuda(Box<cuda::BatchChecker>),
}

impl BatchChecker {
    /// A checker for an engine. On CUDA this compiles a kernel, if that has not been done.
    ///
    /// # Errors
    ///
    /// On CUDA no kernel and no compiler, or no memory.
    pub fn new(engine: &Engine) -> Result<Self, Error> {
        let inner = match &engine.backend {
            Backend::Cpu => Inner::Cpu(Mutex::new(Ok(()))),
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => Inner::Cuda(Box::new(cuda::BatchChecker::new(device)?)),
        };
        Ok(BatchChecker { inner })
    }

    /// Checks a batch when the stream gets there: prefix sums from 0 that rise, lengths that their pages hold, pages of the pool, and that all of it is within the
    /// capacity. On CUDA it is one small launch, which may be captured, and waits for nothing.
    ///
    /// # Errors
    ///
    /// What is seen without reading the arrays: of other memory, that do not go together, of more requests than the capacity. What is in them,
    /// [`BatchChecker::status`] tells.
    pub fn check(&self, stream: &Stream, batch: &DeviceBatch<'_>, capacity: &BatchCapacity) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(found) => {
                stream.check_cpu()?;
                let requests = batch.requests()?;
                if requests > capacity.requests as usize {
                    let capacity = capacity.requests;
                    return Err(BatchError::Capacity { what: "requests", count: requests, capacity }.into());
                }
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                *found = match batch.layout(capacity.pages) {
                    Ok(Some(layout)) => capacity.check(&layout),
                    Ok(None) => return Err(Error::Backend { what: "batch", got: "a CUDA device", want: "the CPU" }),
                    Err(error @ BatchError::OtherKeys { .. }) => return Err(error.into()),
                    Err(error) => Err(error),
                };
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(checker) => Ok(checker.check(stream.cuda()?, batch, capacity)?),
        }
    }

    /// What was wrong with the batch that was checked last, if anything: of several things, one. On CUDA this waits for the device.
    ///
    /// # Errors
    ///
    /// That; on CUDA also a stream that is being captured, and what a kernel ran into.
    pub fn status(&self, stream: &Stream) -> Result<(), Error> {
        match &self.inner {
            Inner::Cpu(found) => {
                stream.check_cpu()?;
                Ok(found.lock().unwrap_or_else(PoisonError::into_inner).clone()?)
            }
            #[cfg(feature = "cuda")]
            Inner::Cuda(checker) => Ok(checker.status(stream.cuda()?)?),
        }
    }
}
