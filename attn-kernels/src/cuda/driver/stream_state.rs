//! What outlives a stream: its number, and an event by which other streams wait for its work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::{fmt, mem, ptr};

use cudarc::driver::result::stream;
use cudarc::driver::sys::{CUstream, CUstreamCaptureStatus};

use super::library;
use super::uses::{Access, Ordered};
use crate::cuda::{CudaError, Device, Event};

/// The largest handle of the legacy default stream: 0, or 1.
const LEGACY: usize = 1;
/// The handle of the per-thread default stream.
const PER_THREAD: usize = 2;

/// A stream, for those that wait for its work. Memory that the stream used keeps it, even after the stream is gone. All
/// objects of a stream share it.
pub(in crate::cuda) struct StreamState {
    raw: CUstream,
    /// A number that no other stream has; not 0.
    id: u64,
    /// Whether the phase is `Capturing`; a run reads it without the lock.
    is_captured: AtomicBool,
    progress: Mutex<Progress>,
    /// Signalled when no submission is under way.
    idle: Condvar,
    event: Event,
}

/// What a stream is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The driver's number, which is never reused; handles are.
    Number(u64),
    /// The handle of a stream that was being captured when it was first seen; a later stream may have it too.
    Captured(usize),
}

impl Key {
    /// The key of a stream that lives; `None` if the driver gives streams no numbers.
    fn of(device: &Device, raw: CUstream) -> Result<Option<Self>, CudaError> {
        let _current = device.make_current()?;
        // `cuStreamGetId` invalidates a capture; the legacy default stream is never captured
        if raw as usize > LEGACY && is_capturing(raw)? {
            return Ok(Some(Key::Captured(raw as usize)));
        }
        Ok(library::stream_id(raw.cast())?.map(Key::Number))
    }
}

/// Whether anybody captures a stream, which lives. Its context is current.
fn is_capturing(raw: CUstream) -> Result<bool, CudaError> {
    // SAFETY: the stream lives.
    let status = unsafe { stream::is_capturing(raw) }.map_err(|e| CudaError::driver("query a stream", e))?;
    Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// What happens to a stream.
#[derive(Debug)]
struct Progress {
    phase: Phase,
    /// The objects of the stream.
    objects: usize,
    /// Submissions that are under way.
    submissions: usize,
}

/// Whether work may be submitted that the event does not cover yet.
#[derive(Debug)]
enum Phase {
    Open,
    /// The stream is being captured; the event was recorded before.
    Capturing(Vec<CapturedUse>),
    /// The stream may be gone; the event was recorded before.
    Closed,
}

/// Work that is being submitted to a stream: until it is dropped, no capture of the stream begins or ends. A thread may
/// have several. Meanwhile it neither allocates or frees device memory nor loads kernels: that may wait for a capture,
/// which may wait for the submission.
#[must_use]
pub(in crate::cuda) struct Submission<'a>(&'a StreamState);

/// Memory that captured work uses.
pub(super) type CapturedUse = (Arc<dyn Replayed>, Access);

/// Memory whose users are ordered again when a graph is launched.
pub(super) trait Replayed: fmt::Debug + Send + Sync {
    /// Orders the work that the stream does next after conflicting work of other streams, and records it.
    fn order_replay(&self, stream: &Arc<StreamState>, access: Access) -> Result<(), CudaError>;
}

// SAFETY: the driver allows a stream in any thread in which its context is current, which every call sees to.
unsafe impl Send for StreamState {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for StreamState {}

impl StreamState {
    /// The state of a stream of the device, for one more object of it.
    pub(super) fn of(device: &Device, raw: CUstream) -> Result<Arc<Self>, CudaError> {
        /// Streams, and their handles, by device and key.
        type ByKey = HashMap<(u32, Key), (usize, Weak<StreamState>)>;
        static STREAMS: LazyLock<Mutex<ByKey>> = LazyLock::new(Mutex::default);
        check_handle(raw as usize)?;
        // dropped after the lock: the last object of a stream calls the driver
        let same_handle: Vec<Arc<StreamState>>;
        let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
        let of_device = streams.iter().filter(|((ordinal, _), _)| *ordinal == device.ordinal());
        let with_handle = of_device.filter(|(_, (handle, _))| *handle == raw as usize);
        same_handle = with_handle.filter_map(|(_, (_, state))| state.upgrade()).collect();
        if let Some(state) = same_handle.iter().find(|state| state.shares()) {
            return Ok(state.clone());
        }
        let Some(key) = Key::of(device, raw)? else { return Self::new(device, raw) };
        let at = (device.ordinal(), key);
        // another stream may have the handle of a closed one
        let of_number = streams.get(&at).filter(|_| matches!(key, Key::Number(_)));
        if let Some(state) = of_number.and_then(|(_, state)| state.upgrade()) {
            state.open();
            return Ok(state);
        }
        let state = Self::new(device, raw)?;
        streams.retain(|_, (_, state)| state.strong_count() > 0);
        streams.insert(at, (raw as usize, Arc::downgrade(&state)));
        Ok(state)
    }

    fn new(device: &Device, raw: CUstream) -> Result<Arc<Self>, CudaError> {
        let (event, is_captured) = (Event::untimed(device)?, AtomicBool::new(false));
        let progress = Mutex::new(Progress { phase: Phase::Open, objects: 1, submissions: 0 });
        Ok(Arc::new(StreamState { raw, id: next_id(), is_captured, progress, idle: Condvar::new(), event }))
    }

    /// Counts one more object of a stream that has some: until the last is gone, no other stream has its handle.
    fn shares(&self) -> bool {
        let mut progress = self.lock();
        let open = progress.objects > 0;
        progress.objects += usize::from(open);
        open
    }

    /// Counts one more object of the stream.
    fn open(&self) {
        let mut progress = self.lock();
        progress.objects += 1;
        if matches!(progress.phase, Phase::Closed) {
            progress.phase = Phase::Open;
        }
    }

    /// Begins to submit work.
    pub(in crate::cuda) fn submission(&self) -> Submission<'_> {
        self.lock().submissions += 1;
        Submission(self)
    }

    /// The lock, once no work is being submitted.
    fn lock_idle(&self) -> MutexGuard<'_, Progress> {
        self.idle.wait_while(self.lock(), |progress| progress.submissions > 0).unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::cuda) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Whether [`CudaStream::capture`](crate::cuda::CudaStream::capture) captures the stream.
    pub(super) fn is_captured(&self) -> bool {
        self.is_captured.load(Ordering::Acquire)
    }

    /// Whether anybody captures the stream. Its context is current.
    pub(in crate::cuda) fn is_capturing(&self) -> Result<bool, CudaError> {
        is_capturing(self.raw)
    }

    /// Whether another library captures the stream, whose graph this library does not know. Its context is current.
    pub(super) fn is_captured_elsewhere(&self) -> Result<bool, CudaError> {
        // the legacy default stream is never captured, and is not asked while another one is
        Ok(!self.is_captured() && self.raw as usize > LEGACY && self.is_capturing()?)
    }

    /// Makes the next work of `next` wait for all work of this stream. The context of both is current.
    ///
    /// # Errors
    ///
    /// [`CudaError::Capturing`] where another library captures this stream: an event would become part of that capture.
    pub(super) fn order_before(&self, next: &StreamState) -> Result<(), CudaError> {
        let progress = self.lock();
        if matches!(progress.phase, Phase::Open) {
            if self.is_capturing()? {
                return Err(CudaError::Capturing { what: "order work of another stream after earlier work" });
            }
            self.event.record_on(self.raw)?;
        }
        self.event.order_before(next.raw)
    }

    /// Records the event and begins a capture by `begin`. The context is current.
    pub(super) fn begin_capture(&self, begin: impl FnOnce() -> Result<(), CudaError>) -> Result<(), CudaError> {
        let mut progress = self.lock_idle();
        if !self.is_capturing()? {
            self.event.record_on(self.raw)?;
        }
        begin()?;
        progress.phase = Phase::Capturing(Vec::new());
        self.is_captured.store(true, Ordering::Release);
        Ok(())
    }

    /// Adds a use of memory to the capture in progress; false if there is none.
    pub(super) fn add_captured(&self, uses: impl IntoIterator<Item = CapturedUse>) -> bool {
        match &mut self.lock().phase {
            Phase::Capturing(captured) => {
                captured.extend(uses);
                true
            }
            Phase::Open | Phase::Closed => false,
        }
    }

    /// Ends a capture by `end`. Returns its result, and the memory that the captured work uses: each once.
    pub(super) fn end_capture<T>(&self, end: impl FnOnce() -> T) -> (T, Vec<CapturedUse>) {
        let mut progress = self.lock_idle();
        let ended = end();
        self.is_captured.store(false, Ordering::Release);
        match mem::replace(&mut progress.phase, Phase::Open) {
            Phase::Capturing(uses) => (ended, each_once(uses)),
            Phase::Open | Phase::Closed => (ended, Vec::new()),
        }
    }

    /// Counts one object less. After the last, the stream may be destroyed: the event is recorded for those that have
    /// yet to wait for the stream. The context is current.
    pub(super) fn close(&self) {
        let mut progress = self.lock();
        progress.objects -= 1;
        if progress.objects > 0 {
            return;
        }
        if matches!(progress.phase, Phase::Open) && self.is_capturing().is_ok_and(|capturing| !capturing) {
            // a device that fails here does no work either
            let _ = self.event.record_on(self.raw);
        }
        progress.phase = Phase::Closed;
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        let mut progress = self.0.lock();
        progress.submissions -= 1;
        if progress.submissions == 0 {
            self.0.idle.notify_all();
        }
    }
}

impl Ordered for Arc<StreamState> {
    fn id(&self) -> u64 {
        self.id
    }
}

impl fmt::Debug for StreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} at {:p}", self.id, self.raw)
    }
}

/// Each memory once: a write stands for the reads.
fn each_once(mut uses: Vec<CapturedUse>) -> Vec<CapturedUse> {
    let address = |used: &CapturedUse| Arc::as_ptr(&used.0).cast::<()>();
    uses.sort_by(|a, b| address(a).cmp(&address(b)).then(b.1.cmp(&a.1)));
    uses.dedup_by(|b, a| ptr::eq(address(a), address(b)));
    uses
}

/// A number that no other stream has; not 0.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Refuses the handle that is another stream on each thread.
fn check_handle(raw: usize) -> Result<(), CudaError> {
    if raw == PER_THREAD { Err(CudaError::PerThreadStream) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_per_thread_default_stream_is_refused() {
        for raw in [0, 1, 3, 0x7f00_0000_1000] {
            assert!(check_handle(raw).is_ok());
        }
        let error = check_handle(2).expect_err("another stream on each thread");
        assert!(matches!(error, CudaError::PerThreadStream));
        assert!(error.to_string().contains("each thread") && error.to_string().contains("create"), "{error}");
    }

    /// Memory with a name; not empty, so that each has an address of its own.
    struct Named(u8);

    impl fmt::Debug for Named {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}", self.0)
        }
    }

    impl Replayed for Named {
        fn order_replay(&self, _: &Arc<StreamState>, _: Access) -> Result<(), CudaError> {
            Err(CudaError::Capturing { what: "order nothing" })
        }
    }

    #[test]
    fn a_graph_lists_each_memory_once_and_writes_win() {
        let [a, b, c] = [1, 2, 3].map(|name| Arc::new(Named(name)) as Arc<dyn Replayed>);
        let used = |memory: &Arc<dyn Replayed>, access| (memory.clone(), access);
        let uses = vec![
            used(&a, Access::Read),
            used(&b, Access::Read),
            used(&a, Access::Write),
            used(&c, Access::Write),
            used(&b, Access::Read),
            used(&a, Access::Read),
        ];
        let mut listed: Vec<_> =
            each_once(uses).into_iter().map(|(memory, access)| (format!("{memory:?}"), access)).collect();
        listed.sort();
        let want = [("1", Access::Write), ("2", Access::Read), ("3", Access::Write)];
        assert_eq!(listed, want.map(|(name, access)| (name.to_owned(), access)));
    }
}
