//! Kernels that a server will need, compiled and loaded before its first request.

use std::fmt;

use attn_kernels::jit::{PrepareReport, Progress};

use crate::backend::{Backend, CudaPreparation, map_backend, on_backend};
use crate::ops::{KvTransform, Op};
use crate::{Attention, Batch, BatchCapacity, Dtype, Engine, Error};

/// Something that a server will do. [`Engine::prepare`] prepares its kernels.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields whose names say all
pub enum Workload<'a> {
    /// Plans of batches like this one ([`Attention::plan`]). Lengths select the kernel, so prepare batches of every
    /// kind that the server plans: steps that decode, prompts of at most 128 keys, longer ones, both
    /// together.
    Batch { attention: &'a Attention, batch: &'a Batch<'a> },
    /// Plans with this capacity, which selects one kernel for all of their batches.
    Capacity { attention: &'a Attention, capacity: BatchCapacity },
    /// Updates of plans on the device ([`Plan::update_on_device`](crate::Plan::update_on_device)).
    DeviceUpdates { attention: &'a Attention },
    /// Calls of an op.
    Op { op: Op },
    /// Appends through a transform, of new keys and values of one element type to a cache of another.
    Append { transform: &'a KvTransform, from: Dtype, to: Dtype },
}

/// Options of [`Engine::prepare_with`].
#[derive(Default)]
pub struct PrepareOptions<'a> {
    /// Threads that compile; by default as many as rayon's pool has.
    pub threads: Option<usize>,
    /// Called after each kernel that was compiled or found, by the thread that did so; never by two threads at once.
    /// Loading, which comes after the last call, is not reported.
    pub progress: Option<&'a mut (dyn FnMut(Progress<'_>) + Send + 'a)>,
}

impl fmt::Debug for PrepareOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PrepareOptions { threads, progress } = self;
        f.debug_struct("PrepareOptions").field("threads", threads).field("progress", &progress.is_some()).finish()
    }
}

impl Engine {
    /// Prepares kernels before they are needed: on CUDA it compiles, on all cores, what is neither embedded nor cached,
    /// and then loads the kernels one after the other. Planning, and runs under a capture, then find them. Threads and
    /// processes that prepare the same kernels at the same time share the work. On the CPU there is nothing to prepare.
    ///
    /// ```
    /// use attn::{Error, Workload, ops::Op, prelude::*};
    ///
    /// let engine = Engine::cpu(); // or `Engine::auto()?`
    /// let heads = Heads { qo: 8, kv: 2, head_dim: 64 };
    /// let attention = engine.attention(&Variant::parse("causal")?, heads, Dtypes::f16())?;
    ///
    /// // at most 64 requests that decode; chunks of prompts of up to 2048 queries; copies of pages
    /// let decode = BatchCapacity::decode(64, 4096 * 16).in_pages(16, 4096);
    /// let chunks = BatchCapacity::new(64, 2048, 4096 * 16).in_pages(16, 4096);
    /// let report = engine.prepare(&[
    ///     Workload::Capacity { attention: &attention, capacity: decode },
    ///     Workload::DeviceUpdates { attention: &attention },
    ///     Workload::Capacity { attention: &attention, capacity: chunks },
    ///     Workload::Op { op: Op::Copy },
    /// ])?;
    /// assert_eq!(report.kernels(), 0); // on a CUDA device: 4
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What planning refuses: an invalid batch, an attention of another engine. On CUDA also an error that lists every
    /// kernel that does not compile or load; all others are prepared.
    pub fn prepare(&self, workloads: &[Workload<'_>]) -> Result<PrepareReport, Error> {
        self.prepare_with(workloads, PrepareOptions::default())
    }

    /// Prepares with a number of threads, or with a callback for each kernel.
    ///
    /// # Errors
    ///
    /// The errors of [`Engine::prepare`].
    pub fn prepare_with(&self, work: &[Workload<'_>], options: PrepareOptions<'_>) -> Result<PrepareReport, Error> {
        let preparation = Preparation::new(self);
        work.iter().try_for_each(|workload| preparation.add(workload))?;
        preparation.run(options)
    }
}

/// A list of kernels, to which workloads are added one by one. [`Engine::prepare`] does all at once. `Send` and `Sync`:
/// threads may add to it at the same time. A kernel is kept once, however many workloads run it.
#[derive(Debug)]
pub struct Preparation {
    backend: Backend<(), CudaPreparation>,
}

impl Preparation {
    /// An empty list for an engine.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        Preparation {
            backend: map_backend!(&engine.backend, { Cpu(()) => (), Cuda(device) => CudaPreparation::new(device) }),
        }
    }

    /// An empty list whose kernels are compiled and not loaded: the cache then has what other attentions load later.
    #[must_use]
    pub fn without_loading(engine: &Engine) -> Self {
        let backend = map_backend!(&engine.backend, {
            Cpu(()) => (),
            Cuda(device) => CudaPreparation::without_loading(device),
        });
        Preparation { backend }
    }

    /// Adds the kernels that a workload runs.
    ///
    /// # Errors
    ///
    /// What planning refuses: an invalid batch, an attention of another engine.
    pub fn add(&self, workload: &Workload<'_>) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(()) => workload.check_on_cpu(),
            Cuda(preparation) => Ok(match *workload {
                Workload::Batch { attention, batch } => preparation.batch(attention.cuda()?, batch),
                Workload::Capacity { attention, capacity } => preparation.capacity(attention.cuda()?, &capacity),
                Workload::DeviceUpdates { attention } => preparation.device_updates(attention.cuda()?),
                Workload::Op { op } => preparation.op(op),
                Workload::Append { transform, from, to } => preparation.append(transform.cuda()?, from, to),
            }?),
        })
    }

    /// Distinct kernels so far; none on the CPU.
    #[must_use]
    pub fn kernels(&self) -> usize {
        on_backend!(&self.backend, { Cpu(()) => 0, Cuda(preparation) => preparation.len() })
    }

    /// Compiles what is neither embedded nor cached, on all cores, and then loads everything, one kernel after the
    /// other.
    ///
    /// # Errors
    ///
    /// An error that lists every kernel that does not compile or load; all others are prepared.
    pub fn run(self, options: PrepareOptions<'_>) -> Result<PrepareReport, Error> {
        let PrepareOptions { threads, progress } = options;
        let mut nothing = |_: Progress<'_>| {};
        let progress = progress.unwrap_or(&mut nothing);
        on_backend!(&self.backend, {
            Cpu(()) => Ok(PrepareReport::default()),
            Cuda(preparation) => Ok(preparation.run(threads, progress)?),
        })
    }
}

impl Workload<'_> {
    /// Refuses what planning on the CPU refuses.
    fn check_on_cpu(&self) -> Result<(), Error> {
        match *self {
            Workload::Batch { attention, batch } => attention.cpu().and_then(|_| Ok(batch.validate().map(drop)?)),
            Workload::Capacity { attention, capacity } => {
                attention.cpu().and_then(|_| Ok(capacity.largest().map(drop)?))
            }
            Workload::DeviceUpdates { attention } => attention.cpu().map(drop),
            Workload::Op { .. } => Ok(()),
            Workload::Append { transform, .. } => transform.cpu().map(drop),
        }
    }
}
