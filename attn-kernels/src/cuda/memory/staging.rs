//! Staging of uploads: alternating copies in pinned memory, so that the source may be changed at once.
//!
//! A host that runs ahead of its device writes the next plan while the previous one is still being copied. So there are
//! two slots, each with an event that is recorded after the copy from the slot; a third upload waits for the first.
//! With pageable memory the driver would wait for the stream before it copies more than a few kilobytes. A single
//! pinned buffer would race with the next step.

use super::pinned_memory::PinnedMemory;
use crate::cuda::{CudaBuffer, CudaError, CudaStream, Device, Event};

/// Two staging slots, used alternately.
#[derive(Debug)]
pub struct CudaStaging {
    device: Device,
    slots: [Option<StagingSlot>; 2],
    next: usize,
}

#[derive(Debug)]
struct StagingSlot {
    bytes: PinnedMemory,
    /// Recorded after the copy from the slot.
    read: Event,
}

impl CudaStaging {
    /// Slots without memory.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        CudaStaging { device: device.clone(), slots: [None, None], next: 0 }
    }

    /// Allocates both slots for uploads of `bytes` bytes, so that [`CudaStaging::upload`] does not allocate.
    ///
    /// # Errors
    ///
    /// No memory that can be pinned, or a failure of the driver.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), CudaError> {
        for slot in &mut self.slots {
            if slot.as_ref().is_none_or(|slot| slot.bytes.len() < bytes) {
                *slot = None; // freed once the device has copied from it
                let (bytes, read) = (PinnedMemory::new(&self.device, bytes)?, Event::untimed(&self.device)?);
                *slot = Some(StagingSlot { bytes, read });
            }
        }
        Ok(())
    }

    /// Copies bytes to the start of a buffer, in the order of the stream. They may be changed on return. Waits for the
    /// last but one upload.
    ///
    /// # Errors
    ///
    /// More bytes than the buffer has, a stream that is being captured, or a failure of the driver.
    pub fn upload(&mut self, stream: &CudaStream, to: &mut CudaBuffer, bytes: &[u8]) -> Result<(), CudaError> {
        self.upload_shared(stream, to, bytes)
    }

    /// Uploads under a lock of the caller, which keeps launches with the buffer from coming in between
    /// ([`CudaStaging::upload`] has none).
    pub(super) fn upload_shared(
        &mut self,
        stream: &CudaStream,
        to: &CudaBuffer,
        bytes: &[u8],
    ) -> Result<(), CudaError> {
        self.reserve(bytes.len())?;
        if let Some(slot) = &mut self.slots[self.next] {
            slot.read.synchronize()?; // returns at once if it was never recorded
            slot.bytes.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            let _submission = stream.submission();
            // SAFETY: the slot is written again, or freed, once the stream has executed the copy.
            unsafe { to.write_async_shared(stream, 0, &slot.bytes.bytes()[..bytes.len()]) }?;
            if let Err(error) = stream.record(&slot.read) {
                self.slots[self.next] = None; // freed once the device has copied from it
                return Err(error);
            }
        }
        self.next = (self.next + 1) % self.slots.len();
        Ok(())
    }
}
