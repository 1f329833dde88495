//! A rank of a group of engines.

use std::time::Duration;

use attn_core::parallel::{Collective, ThreadRank};

use crate::backend::{Backend, NcclRank, on_backend};
use crate::{Engine, Error, Stream, TensorMut, TensorRef};

/// A rank of a group of engines. `Send` and `Sync`; each rank has a process or a thread of its own, and its calls are
/// in one order.
///
/// Tensors are contiguous. On CUDA a collective launches and returns, and a graph can capture it after one call of the
/// same kind, which connects the ranks. On the CPU it returns when all ranks have come.
#[derive(Debug)]
pub struct Communicator {
    backend: Backend<ThreadRank, NcclRank>,
}

impl Communicator {
    /// The ranks of a new group of threads, whose engines are CPUs. A call that waits longer than `limit` for other
    /// ranks breaks the group.
    #[must_use]
    pub fn threads(ranks: usize, limit: Duration) -> Vec<Self> {
        let of = |rank| Communicator { backend: Backend::Cpu(rank) };
        ThreadRank::group(ranks, limit).into_iter().map(of).collect()
    }

    /// An id of a new group of CUDA devices, which one rank makes and all are given ([`Communicator::join`]).
    ///
    /// # Errors
    ///
    /// No NCCL: the library that `ATTN_NCCL` names, else `libnccl.so.2` of the loader's path.
    #[cfg(feature = "cuda")]
    pub fn unique_id() -> Result<[u8; 128], Error> {
        Ok(NcclRank::unique_id()?)
    }

    /// Joins the group of an id as one of its ranks, once all have come. Each has a device of its own.
    ///
    /// # Errors
    ///
    /// An engine of the CPU; no NCCL; a rank that does not come within `limit`; a failure of NCCL, such as two ranks of
    /// one device.
    #[cfg(feature = "cuda")]
    pub fn join(engine: &Engine, id: [u8; 128], rank: usize, ranks: usize, limit: Duration) -> Result<Self, Error> {
        let device = engine.backend.cuda_for("communicator")?;
        Ok(Communicator { backend: Backend::Cuda(NcclRank::new(device, id, rank, ranks, limit)?) })
    }

    /// Joins the group of the processes that `torchrun`, `mpirun` or `srun` started, as their environment says, with
    /// the engine of the process's device: that of its rank within its host. NCCL meets at the address in
    /// `NCCL_COMM_ID`, a free port of the host of rank 0.
    ///
    /// # Errors
    ///
    /// A variable that is missing, or no number; no such device; the errors of [`Communicator::join`].
    #[cfg(feature = "cuda")]
    pub fn from_env(limit: Duration) -> Result<(Engine, Self), Error> {
        let launched = attn_core::parallel::Launched::read(|name| std::env::var(name).ok())?;
        let engine = Engine::cuda(launched.device)?;
        Ok((engine.clone(), Self::join(&engine, Self::unique_id()?, launched.rank, launched.ranks, limit)?))
    }

    /// Borrows an `ncclComm_t` of the engine's device, such as that of a process group of torch. It is never aborted
    /// here: where a rank fails, calls return errors, and the caller aborts it, so that its work ends.
    ///
    /// # Errors
    ///
    /// An engine of the CPU, or of another device; no NCCL.
    ///
    /// # Safety
    ///
    /// It is a communicator of the NCCL that is loaded here, outlives this object, and nobody else calls it while a
    /// call of this object runs.
    #[cfg(feature = "cuda")]
    pub unsafe fn from_raw(engine: &Engine, raw: *mut std::ffi::c_void, limit: Duration) -> Result<Self, Error> {
        let device = engine.backend.cuda_for("communicator")?;
        // SAFETY: the caller's promise.
        let rank = unsafe { NcclRank::from_raw(device, raw, limit) }?;
        Ok(Communicator { backend: Backend::Cuda(rank) })
    }

    /// The index of this rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        on_backend!(&self.backend, rank => rank.rank())
    }

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        on_backend!(&self.backend, rank => rank.ranks())
    }

    /// Gathers the tensors of all ranks: `receive` has a dimension of ranks before those of `send`.
    ///
    /// # Errors
    ///
    /// Tensors that do not fit, which breaks the group; a stream of another engine; a group that is broken. On the CPU
    /// also another call of another rank, and a rank that does not come; on CUDA [`Communicator::wait`] finds these.
    pub fn all_gather(&self, stream: &Stream, send: TensorRef<'_>, receive: TensorMut<'_>) -> Result<(), Error> {
        self.run(stream, Collective::AllGather, &mut [(send, receive)])
    }

    /// Adds up the tensors of all ranks (f16, bf16 or f32); `receive` has the shape of `send`. All ranks have the same
    /// bits. On CUDA the order of an element's sum is NCCL's, which depends on where the element is.
    ///
    /// # Errors
    ///
    /// The errors of [`Communicator::all_gather`].
    pub fn all_reduce(&self, stream: &Stream, send: TensorRef<'_>, receive: TensorMut<'_>) -> Result<(), Error> {
        self.run(stream, Collective::AllReduce, &mut [(send, receive)])
    }

    /// Sends part `r` of the first dimension of `send` to rank `r`, and receives a part of each rank: both tensors have
    /// the same shape, whose first dimension is that of ranks.
    ///
    /// # Errors
    ///
    /// The errors of [`Communicator::all_gather`].
    pub fn all_to_all(&self, stream: &Stream, send: TensorRef<'_>, receive: TensorMut<'_>) -> Result<(), Error> {
        self.run(stream, Collective::AllToAll, &mut [(send, receive)])
    }

    /// Sends a tensor to the next rank, the last one to the first, and receives that of the rank before.
    ///
    /// # Errors
    ///
    /// The errors of [`Communicator::all_gather`].
    pub fn shift(&self, stream: &Stream, send: TensorRef<'_>, receive: TensorMut<'_>) -> Result<(), Error> {
        self.run(stream, Collective::Shift, &mut [(send, receive)])
    }

    /// Runs a collective over several pairs of tensors, on CUDA as one launch.
    pub(super) fn run(
        &self,
        stream: &Stream,
        collective: Collective,
        tensors: &mut [(TensorRef<'_>, TensorMut<'_>)],
    ) -> Result<(), Error> {
        on_backend!(&self.backend, {
            Cpu(rank) => {
                stream.cpu()?;
                let run = |(send, receive): &mut (TensorRef<'_>, TensorMut<'_>)| rank.run(collective, send, receive);
                Ok(tensors.iter_mut().try_for_each(run)?)
            },
            Cuda(rank) => Ok(rank.run(stream.cuda()?, collective, tensors)?),
        })
    }

    /// Waits for the work of a stream, as [`Stream::synchronize`], and no longer than the limit of the group, which is
    /// broken then: work of a device that waits for another rank never ends where that one fails.
    ///
    /// # Errors
    ///
    /// Collectives that failed, or did not end in time; the error of a kernel.
    pub fn wait(&self, stream: &Stream) -> Result<(), Error> {
        on_backend!(&self.backend, { Cpu(_) => stream.cpu(), Cuda(rank) => Ok(rank.wait(stream.cuda()?)?) })
    }

    /// Breaks the group: its calls fail with `why`, and other ranks get an error where they wait.
    pub fn abort(&self, why: impl Into<String>) {
        on_backend!(&self.backend, rank => rank.abort(why));
    }

    /// Refuses a stream of another engine.
    pub(super) fn check(&self, stream: &Stream) -> Result<(), Error> {
        self.backend.check("stream", &stream.backend)
    }
}
