//! The users of a piece of device memory, kept in order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use attn_core::tensor::DeviceMemory;

use super::stream_state::{Replayed, StreamState};
use super::uses::{Access, Ordered, Uses};
use crate::cuda::{CudaError, Device};

/// Orders the users of a piece of device memory. A run by the stream of the last run reads one atomic word; another
/// stream waits for an event. A fifth stream that reads at the same time allocates on the host, once.
#[derive(Debug)]
pub(in crate::cuda) struct UseTracker {
    device: Device,
    /// A use that needs neither a wait nor the lock: see [`word`]. 0 if there is none.
    covered: AtomicU64,
    uses: Mutex<Uses<Arc<StreamState>>>,
}

/// The word of a use: the number of the stream, and whether it may write.
fn word(id: u64, access: Access) -> u64 {
    id << 1 | u64::from(access == Access::Write)
}

/// Whether the word of an earlier use covers this one.
fn is_covered(earlier: u64, id: u64, access: Access) -> bool {
    earlier == word(id, Access::Write) || earlier == word(id, access)
}

impl UseTracker {
    pub(super) fn new(device: &Device) -> Arc<Self> {
        Arc::new(UseTracker { device: device.clone(), covered: AtomicU64::new(0), uses: Mutex::default() })
    }

    /// Orders the work that the stream does next after conflicting work of other streams, and records it. Under a
    /// capture nothing runs, so the graph takes note instead, and orders its launches.
    ///
    /// # Errors
    ///
    /// [`CudaError::Capturing`] where another library captures the stream of earlier work; a failure of the driver.
    #[inline]
    pub(in crate::cuda) fn order(self: &Arc<Self>, stream: &Arc<StreamState>, access: Access) -> Result<(), CudaError> {
        if !stream.is_captured() {
            return self.order_replay(stream, access);
        }
        if stream.add_captured([(self.clone() as Arc<dyn Replayed>, access)]) {
            return Ok(());
        }
        self.order_replay(stream, access) // the capture has ended meanwhile
    }

    /// Orders work, as [`UseTracker::order`] does, and calls `submit` before any other work is ordered.
    ///
    /// # Errors
    ///
    /// The errors of [`UseTracker::order`], and those of `submit`.
    pub(in crate::cuda) fn submit(
        self: &Arc<Self>,
        stream: &Arc<StreamState>,
        access: Access,
        submit: impl FnOnce() -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        if stream.is_captured() {
            self.order(stream, access)?;
            return submit();
        }
        let mut uses = self.lock();
        self.order_locked(&mut uses, stream, access)?;
        submit()
    }

    /// Forgets all users: their work has finished, and nothing is submitted meanwhile.
    pub(in crate::cuda) fn clear(&self) {
        let mut uses = self.lock();
        uses.clear();
        self.covered.store(0, Ordering::Release);
    }

    #[cold]
    fn order_slowly(&self, stream: &Arc<StreamState>, access: Access) -> Result<(), CudaError> {
        self.order_locked(&mut self.lock(), stream, access)
    }

    fn order_locked(
        &self,
        uses: &mut Uses<Arc<StreamState>>,
        stream: &Arc<StreamState>,
        access: Access,
    ) -> Result<(), CudaError> {
        if uses.covers(stream, access) {
            return Ok(());
        }
        let _current = self.device.make_current()?;
        // nothing runs under a capture of another library; who replays it keeps the order (`CudaStream::from_raw`)
        if stream.is_capturing()? {
            return Ok(());
        }
        uses.record(stream, access, |before| before.order_before(stream))?;
        let covered = if uses.covers(stream, Access::Write) { Access::Write } else { Access::Read };
        self.covered.store(word(stream.id(), covered), Ordering::Release);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Uses<Arc<StreamState>>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The users of a buffer, as descriptors of its memory carry them.
#[derive(Debug)]
pub(in crate::cuda) struct BufferUses(pub(in crate::cuda) Arc<UseTracker>);

impl BufferUses {
    pub(in crate::cuda) fn new(device: &Device) -> Self {
        BufferUses(UseTracker::new(device))
    }
}

impl DeviceMemory for BufferUses {
    fn device(&self) -> u32 {
        self.0.device.ordinal()
    }
}

impl Replayed for UseTracker {
    fn order_replay(&self, stream: &Arc<StreamState>, access: Access) -> Result<(), CudaError> {
        if is_covered(self.covered.load(Ordering::Acquire), stream.id(), access) {
            return Ok(());
        }
        self.order_slowly(stream, access)
    }
}

#[cfg(test)]
mod tests {
    use super::{Access::*, *};

    #[test]
    fn a_write_covers_reads_and_no_other_stream() {
        assert!(is_covered(word(5, Write), 5, Read) && is_covered(word(5, Write), 5, Write));
        assert!(is_covered(word(5, Read), 5, Read) && !is_covered(word(5, Read), 5, Write));
        for access in [Read, Write] {
            assert!(!is_covered(word(5, Write), 6, access) && !is_covered(word(5, Read), 4, access));
            assert!(!is_covered(0, 1, access), "nothing is covered at first");
        }
    }
}
