//! Uploads of bytes that change at once: copies of them in pinned memory, by turns.
//!
//! A host that runs ahead of its device writes the plan of the next step while the one before is still being copied. So there are two copies, and an
//! event says when one has been read; who comes a third time waits for the first. From pageable memory the driver would have to wait for
//! the stream before it copies more than a few kilobytes, and a copy from one pinned buffer would race with the next step.

use super::{CudaError, Device, DeviceBuffer, Event, Stream, buffer::PinnedBuffer};

/// Copies by turns.
#[derive(Debug)]
pub(super) struct Staging {
    device: Device,
    turns: [Option<Turn>; 2],
    next: usize,
}

#[derive(Debug)]
struct Turn {
    bytes: PinnedBuffer,
    /// When the bytes have been read.
    read: Event,
}

impl Staging {
    /// With no memory yet.
    pub(super) fn new(device: &Device) -> Self {
        Staging { device: device.clone(), turns: [None, None], next: 0 }
    }

    /// Makes room for so many bytes at a time, so that [`Staging::upload`] allocates nothing.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), CudaError> {
        for turn in &mut self.turns {
            if turn.as_ref().is_none_or(|turn| turn.bytes.len() < bytes) {
                // what was there is waited for by its drop
                *turn = None;
                let (bytes, read) = (PinnedBuffer::new(&self.device, bytes)?, Event::untimed(&self.device)?);
                *turn = Some(Turn { bytes, read });
            }
        }
        Ok(())
    }

    /// Copies bytes to the start of a buffer, in the order of the stream. They may be changed on return. Waits until the copy before the last one has
    /// been read.
    pub(super) fn upload(&mut self, stream: &Stream, to: &DeviceBuffer, bytes: &[u8]) -> Result<(), CudaError> {
        self.reserve(bytes.len())?;
        if let Some(turn) = &mut self.turns[self.next] {
            turn.read.synchronize()?; // at once, if it was never recorded
            turn.bytes.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            to.write(stream, 0, &turn.bytes.bytes()[..bytes.len()])?;
            turn.read.record(stream)?;
        }
        self.next = (self.next + 1) % self.turns.len();
        Ok(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // a device in error cannot be waited for, and reads nothing either
        let _ = self.read.synchronize();
    }
}
