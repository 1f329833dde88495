//! A rank of a group of devices.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use attn_core::parallel::{Call, Collective, ParallelError};
use attn_core::tensor::{TensorMut, TensorRef};
use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{CUresult, cuStreamQuery};

use super::api::{Api, BYTES, Comm, Config, IN_PROGRESS, SUM, UniqueId, data_type};
use crate::cuda::driver::order::order;
use crate::cuda::driver::uses::Access::{Read, Write};
use crate::cuda::{CudaError, CudaStream, Device};

/// How often a thread that waits for work asks how the group is.
const LOOK: Duration = Duration::from_millis(1);
/// How long a thread sleeps between two looks at what it waits for on the host.
const PAUSE: Duration = Duration::from_micros(50);

/// A rank of a group of CUDA devices, each with a process or a thread of its own. Tensors are contiguous and in memory
/// of the device. Calls launch on a stream and return, so that a CUDA graph can capture them, after one call of the
/// same kind outside of a capture, which connects the ranks.
pub struct NcclRank {
    device: Device,
    api: &'static Api,
    state: Mutex<State>,
    rank: usize,
    ranks: usize,
    limit: Duration,
    /// Whether the communicator is the caller's.
    borrowed: bool,
}

struct State {
    comm: Comm,
    broken: Option<ParallelError>,
}

// SAFETY: NCCL allows a communicator in any thread, one at a time, which the lock sees to.
unsafe impl Send for State {}

/// What a rank moves: addresses of the device.
struct Transfer {
    from: u64,
    to: u64,
    call: Call,
}

impl NcclRank {
    /// What all ranks of a new group are given by one of them.
    ///
    /// # Errors
    ///
    /// No NCCL, or a failure of it.
    pub fn unique_id() -> Result<[u8; 128], CudaError> {
        let api = Api::find()?;
        let mut id = UniqueId([0; 128]);
        // SAFETY: the output is valid for writes.
        api.check("make an id", unsafe { (api.unique_id)(&raw mut id) })?;
        Ok(id.0)
    }

    /// Joins the group of an id, once all of its `ranks` ranks have come. Whatever waits for other ranks longer than
    /// `limit` is an error.
    ///
    /// # Errors
    ///
    /// No such rank; no NCCL, a rank that does not come, two ranks of one device, a failure of NCCL.
    pub fn new(device: &Device, id: [u8; 128], rank: usize, ranks: usize, limit: Duration) -> Result<Self, CudaError> {
        if rank >= ranks {
            return Err(ParallelError::Rank { rank, ranks }.into());
        }
        let api = Api::find()?;
        let _current = device.make_current()?;
        let (mut comm, mut config) = (std::ptr::null_mut(), Config::NON_BLOCKING);
        // SAFETY: the outputs are valid, and the context of the device is current.
        let code =
            unsafe { (api.init_rank)(&raw mut comm, ranks as c_int, UniqueId(id), rank as c_int, &raw mut config) };
        if code != IN_PROGRESS {
            api.check("join the group", code)?;
        }
        let state = Mutex::new(State { comm, broken: None });
        let of = NcclRank { device: device.clone(), api, state, rank, ranks, limit, borrowed: false };
        of.settle(&mut of.lock(), "join the group", code)?;
        Ok(of)
    }

    /// Borrows an `ncclComm_t` of the device. It is never aborted here: where a rank fails, calls return errors, and
    /// the caller aborts it, so that its work ends.
    ///
    /// # Errors
    ///
    /// No NCCL; a communicator of another device.
    ///
    /// # Safety
    ///
    /// It is a communicator of the NCCL that this process loads first, and outlives this object; while a call here runs
    /// nobody else calls it.
    pub unsafe fn from_raw(device: &Device, comm: *mut c_void, limit: Duration) -> Result<Self, CudaError> {
        let api = Api::find()?;
        let number = |what, get: unsafe extern "C" fn(Comm, *mut c_int) -> c_int| {
            let mut number = 0;
            // SAFETY: the caller's promise; the output is valid for writes.
            api.check(what, unsafe { get(comm, &raw mut number) }).map(|()| number as usize)
        };
        let got = number("name the device of the communicator", api.device)? as u32;
        if got != device.ordinal() {
            return Err(CudaError::OtherDevice { what: "communicator", got, want: device.ordinal() });
        }
        let (rank, ranks) = (number("name the rank", api.user_rank)?, number("count the ranks", api.count)?);
        let state = Mutex::new(State { comm, broken: None });
        Ok(NcclRank { device: device.clone(), api, state, rank, ranks, limit, borrowed: true })
    }

    /// The index of this rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Launches a collective over pairs of tensors, to send and to receive into, all of them as one launch.
    ///
    /// # Errors
    ///
    /// Tensors that do not fit, which breaks the group, as the other ranks wait; an earlier error of the group; a
    /// failure of NCCL. Another call of another rank is found by [`NcclRank::wait`].
    pub fn run(
        &self,
        stream: &CudaStream,
        collective: Collective,
        tensors: &[(TensorRef<'_>, TensorMut<'_>)],
    ) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        let _current = self.device.make_current()?;
        let _submission = stream.submission();
        let mut transfers = Vec::with_capacity(tensors.len());
        for (send, receive) in tensors {
            let call = Call::new(collective, self.ranks, send, receive).map_err(|why| self.give_up(why))?;
            let (Some(from), Some(to)) = (send.device_ptr(), receive.device_ptr()) else {
                return Err(self.give_up(format!("{call} needs tensors in memory of the device")).into());
            };
            order(stream, Read, [("send", send.owner())])?;
            order(stream, Write, [("receive", receive.owner())])?;
            transfers.push(Transfer { from, to, call });
        }
        let mut state = self.lock();
        if let Some(error) = &state.broken {
            return Err(error.clone().into());
        }
        let (comm, stream) = (state.comm, stream.as_raw());
        let code = self.grouped(|| {
            let launch = |transfer: &Transfer| self.launch(collective, transfer, comm, stream);
            transfers.iter().flat_map(launch).collect()
        });
        Ok(self.settle(&mut state, "launch a collective", code)?)
    }

    /// The calls of NCCL that move the tensors of a collective, and their codes.
    fn launch(&self, collective: Collective, of: &Transfer, comm: Comm, stream: *mut c_void) -> Vec<c_int> {
        let (rank, ranks, bytes) = (self.rank, self.ranks, of.call.bytes());
        let pointer = |of: u64, first: usize| (of + first as u64) as *mut c_void;
        let send = |peer: usize, first: usize, bytes: usize| {
            // SAFETY: the tensor has the bytes; the communicator and the stream live.
            unsafe { (self.api.send)(pointer(of.from, first), bytes, BYTES, peer as c_int, comm, stream) }
        };
        let receive = |peer: usize, first: usize, bytes: usize| {
            // SAFETY: as above.
            unsafe { (self.api.receive)(pointer(of.to, first), bytes, BYTES, peer as c_int, comm, stream) }
        };
        match collective {
            // SAFETY: as above; the tensor to receive into has the bytes of all ranks.
            Collective::AllGather => vec![unsafe {
                (self.api.all_gather)(pointer(of.from, 0), pointer(of.to, 0), bytes, BYTES, comm, stream)
            }],
            // SAFETY: as above; both tensors have the elements.
            Collective::AllReduce => vec![unsafe {
                let (from, to, dtype) = (pointer(of.from, 0), pointer(of.to, 0), data_type(of.call.dtype()));
                (self.api.all_reduce)(from, to, of.call.elements(), dtype, SUM, comm, stream)
            }],
            Collective::AllToAll => {
                let part = bytes / ranks;
                (0..ranks).flat_map(|peer| [send(peer, peer * part, part), receive(peer, peer * part, part)]).collect()
            }
            Collective::Shift => {
                vec![send((rank + 1) % ranks, 0, bytes), receive((rank + ranks - 1) % ranks, 0, bytes)]
            }
            Collective::Barrier => Vec::new(),
        }
    }

    /// Several calls of NCCL as one launch: the code of the first one that fails, else of the launch.
    fn grouped(&self, calls: impl FnOnce() -> Vec<c_int>) -> c_int {
        // SAFETY: it takes nothing.
        let start = unsafe { (self.api.group_start)() };
        let codes = calls();
        // SAFETY: as above.
        let end = unsafe { (self.api.group_end)() };
        [start].into_iter().chain(codes).find(|&code| code != 0 && code != IN_PROGRESS).unwrap_or(end)
    }

    /// Waits for the work of a stream as long as the limit, and then aborts the group: work that waits for other ranks
    /// never ends where one of them fails.
    ///
    /// # Errors
    ///
    /// Collectives that did not end in time, or that failed; the error of a kernel.
    pub fn wait(&self, stream: &CudaStream) -> Result<(), CudaError> {
        self.device.check_same("stream", stream.device())?;
        let _current = self.device.make_current()?;
        let (start, mut looked) = (Instant::now(), Duration::ZERO);
        loop {
            // SAFETY: the stream lives.
            match unsafe { cuStreamQuery(stream.as_raw().cast()) } {
                CUresult::CUDA_SUCCESS => return self.lock().broken.clone().map_or(Ok(()), |error| Err(error.into())),
                CUresult::CUDA_ERROR_NOT_READY => {}
                error => return Err(CudaError::driver("finish the work of the stream", DriverError(error))),
            }
            // as a driver that waits for a stream, without a pause that a step would take longer by
            if start.elapsed() - looked < LOOK {
                thread::yield_now();
                continue;
            }
            looked = start.elapsed();
            let mut state = self.lock();
            if let Some(error) = &state.broken {
                // the work of an aborted communicator ends by itself; one that is borrowed stays as it is
                if self.borrowed || start.elapsed() >= 2 * self.limit {
                    return Err(error.clone().into());
                }
            } else {
                let error = if start.elapsed() < self.limit {
                    self.settled(&state, "run a collective").err()
                } else {
                    Some(ParallelError::NoAnswer { rank: self.rank, ranks: self.ranks, limit: self.limit })
                };
                if let Some(error) = error {
                    self.break_with(&mut state, error);
                }
            }
        }
    }

    /// Breaks the group for this rank: its work ends, later calls fail with `why`, and other ranks get an error where
    /// they wait.
    pub fn abort(&self, why: impl Into<String>) {
        self.give_up(why.into());
    }

    fn give_up(&self, why: String) -> ParallelError {
        let error = ParallelError::Aborted { rank: self.rank, why };
        self.break_with(&mut self.lock(), error.clone());
        error
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Aborts the communicator, unless that has happened, or it is the caller's, who then has to.
    fn break_with(&self, state: &mut State, error: ParallelError) {
        if state.broken.is_none() {
            state.broken = Some(error);
            if !self.borrowed {
                // SAFETY: the communicator lives, and nobody calls it again.
                let _ = unsafe { (self.api.abort)(state.comm) };
            }
        }
    }

    /// Whether the communicator is idle; its error, if it failed.
    fn settled(&self, state: &State, what: &'static str) -> Result<bool, ParallelError> {
        let mut code = 0;
        // SAFETY: the communicator lives; the output is valid for writes.
        let asked = unsafe { (self.api.async_error)(state.comm, &raw mut code) };
        self.api.check("say how a collective goes", asked)?;
        if code == IN_PROGRESS {
            return Ok(false);
        }
        self.api.check(what, code).map(|()| true)
    }

    /// Waits until a call that returned `code` is done on the host. An error breaks the group.
    fn settle(&self, state: &mut State, what: &'static str, code: c_int) -> Result<(), ParallelError> {
        let done = || {
            if code != IN_PROGRESS {
                return self.api.check(what, code);
            }
            let start = Instant::now();
            while !self.settled(state, what)? {
                if start.elapsed() >= self.limit {
                    return Err(ParallelError::NoAnswer { rank: self.rank, ranks: self.ranks, limit: self.limit });
                }
                thread::sleep(PAUSE);
            }
            Ok(())
        };
        let result = done();
        if let Err(error) = &result {
            self.break_with(state, error.clone());
        }
        result
    }
}

impl fmt::Debug for NcclRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NcclRank").field("rank", &self.rank).field("ranks", &self.ranks).finish_non_exhaustive()
    }
}

impl Drop for NcclRank {
    fn drop(&mut self) {
        let mut state = self.lock();
        if self.borrowed || state.broken.is_some() {
            return;
        }
        let Ok(_current) = self.device.make_current() else { return };
        // SAFETY: the communicator is ours; its work ends before it is destroyed.
        let code = unsafe { (self.api.finalize)(state.comm) };
        if self.settle(&mut state, "end the work of the group", code).is_ok() {
            // SAFETY: as above.
            let _ = unsafe { (self.api.destroy)(state.comm) };
        }
    }
}
