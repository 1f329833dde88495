//! What outlives a stream: its number, and an event by which other streams wait for its work.

use std::{
    fmt, ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use cudarc::driver::{
    result::stream,
    sys::{CUstream, CUstreamCaptureStatus},
};

use super::{
    CudaError, Device, Event, driver,
    uses::{Access, Ordered},
};

/// The handle of the per-thread default stream.
const PER_THREAD: usize = 2;

/// A stream, for those that wait for its work. Memory that the stream used keeps it, even after the stream is gone.
pub(super) struct StreamState {
    raw: CUstream,
    /// The driver's number of the stream, which is never reused; handles are.
    id: u64,
    /// The number of this object.
    key: u64,
    /// Whether `phase` is `Capturing`; a run reads it without the lock.
    is_captured: AtomicBool,
    phase: Mutex<Phase>,
    event: Event,
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
    /// The state of a stream of the device.
    pub(super) fn new(device: &Device, raw: CUstream) -> Result<Arc<Self>, CudaError> {
        check_handle(raw as usize)?;
        let event = Event::untimed(device)?;
        let key = next_key();
        let id = {
            let _current = device.make_current()?;
            driver::stream_id(raw.cast())?.unwrap_or(OWN_IDS | key)
        };
        let (is_captured, phase) = (AtomicBool::new(false), Mutex::new(Phase::Open));
        Ok(Arc::new(StreamState { raw, id, key, is_captured, phase, event }))
    }

    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Whether [`CudaStream::capture`](super::CudaStream::capture) captures the stream.
    pub(super) fn is_captured(&self) -> bool {
        self.is_captured.load(Ordering::Acquire)
    }

    /// Whether anybody captures the stream. Its context is current.
    pub(super) fn is_capturing(&self) -> Result<bool, CudaError> {
        // SAFETY: the stream lives.
        let status = unsafe { stream::is_capturing(self.raw) }.map_err(|e| CudaError::driver("query a stream", e))?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Makes the next work of `next` wait for all work of this stream. The context of both is current.
    ///
    /// # Errors
    ///
    /// [`CudaError::Capturing`] where another library captures this stream: an event would become part of that capture.
    pub(super) fn order_before(&self, next: &StreamState) -> Result<(), CudaError> {
        let phase = self.phase();
        if matches!(*phase, Phase::Open) {
            if self.is_capturing()? {
                return Err(CudaError::Capturing { what: "order work of another stream after earlier work" });
            }
            self.event.record_on(self.raw)?;
        }
        self.event.order_before(next.raw)
    }

    /// Records the event and begins a capture by `begin`. The context is current.
    pub(super) fn begin_capture(&self, begin: impl FnOnce() -> Result<(), CudaError>) -> Result<(), CudaError> {
        let mut phase = self.phase();
        if !self.is_capturing()? {
            self.event.record_on(self.raw)?;
        }
        begin()?;
        *phase = Phase::Capturing(Vec::new());
        self.is_captured.store(true, Ordering::Release);
        Ok(())
    }

    /// Adds a use of memory to the capture in progress; false if there is none.
    pub(super) fn add_captured(&self, uses: impl IntoIterator<Item = CapturedUse>) -> bool {
        match &mut *self.phase() {
            Phase::Capturing(captured) => {
                captured.extend(uses);
                true
            }
            Phase::Open | Phase::Closed => false,
        }
    }

    /// Ends a capture by `end`. Returns its result, and the memory that the captured work uses: each once.
    pub(super) fn end_capture<T>(&self, end: impl FnOnce() -> T) -> (T, Vec<CapturedUse>) {
        let mut phase = self.phase();
        let ended = end();
        self.is_captured.store(false, Ordering::Release);
        match std::mem::replace(&mut *phase, Phase::Open) {
            Phase::Capturing(uses) => (ended, each_once(uses)),
            Phase::Open | Phase::Closed => (ended, Vec::new()),
        }
    }

    /// Records the event for those that have yet to wait for the stream, which may be destroyed afterwards. The context
    /// is current.
    pub(super) fn close(&self) {
        let mut phase = self.phase();
        if matches!(*phase, Phase::Open) && self.is_capturing().is_ok_and(|capturing| !capturing) {
            // a device that fails here does no work either
            let _ = self.event.record_on(self.raw);
        }
        *phase = Phase::Closed;
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ordered for Arc<StreamState> {
    fn id(&self) -> u64 {
        self.id
    }
    fn key(&self) -> u64 {
        self.key
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

/// Numbers of streams that the driver does not number: no other stream is equal to them.
const OWN_IDS: u64 = 1 << 63;

/// A number that no other object has; not 0.
fn next_key() -> u64 {
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

    #[test]
    fn objects_have_numbers_of_their_own() {
        let [a, b] = [next_key(), next_key()];
        assert!(a != b && a != 0 && b != 0 && (OWN_IDS | a) != a);
    }
}
