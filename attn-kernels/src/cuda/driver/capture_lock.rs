//! Mutual exclusion of stream captures and device synchronisation. A thread that synchronises with a device while any
//! thread captures one of its streams gets an error, or makes the capture fail. So captures wait for synchronisations,
//! and synchronisations wait for captures. Captures may overlap, and so may synchronisations.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::cuda::CudaError;

thread_local! {
    /// The number of captures that this thread is in.
    static CAPTURES: Cell<u32> = const { Cell::new(0) };
}

/// Refuses work that may not be done in a thread that captures a stream, on whatever stream it is.
pub(in crate::cuda) fn refuse_capture(what: &'static str) -> Result<(), CudaError> {
    if CAPTURES.get() > 0 { Err(CudaError::Capturing { what }) } else { Ok(()) }
}

/// The captures and synchronisations in progress on one device.
#[derive(Debug, Default)]
pub(super) struct CaptureLock {
    /// The number of captures; if negative, of synchronisations.
    holders: Mutex<i64>,
    changed: Condvar,
}

/// A capture in progress, until it is dropped.
#[must_use = "the capture ends with it"]
pub(super) struct Capture<'a>(&'a CaptureLock);

/// A synchronisation in progress, until it is dropped.
#[must_use = "the wait ends with it"]
pub(super) struct Wait<'a>(&'a CaptureLock);

impl CaptureLock {
    /// The lock of a device by its ordinal. All [`Device`](super::device::Device) objects of an ordinal share it, since
    /// they share a context.
    pub(super) fn of(ordinal: u32) -> Arc<Self> {
        static OF_DEVICES: Mutex<BTreeMap<u32, Arc<CaptureLock>>> = Mutex::new(BTreeMap::new());
        OF_DEVICES.lock().unwrap_or_else(PoisonError::into_inner).entry(ordinal).or_default().clone()
    }

    /// Begins a capture, once no synchronisation is in progress.
    pub(super) fn capture(&self) -> Capture<'_> {
        self.enter(1);
        CAPTURES.set(CAPTURES.get() + 1);
        Capture(self)
    }

    /// Begins a synchronisation, once no capture is in progress.
    ///
    /// # Errors
    ///
    /// [`CudaError::Capturing`] in a thread that is in a capture itself, because it would wait for ever.
    pub(super) fn wait(&self) -> Result<Wait<'_>, CudaError> {
        refuse_capture("wait for the device")?;
        self.enter(-1);
        Ok(Wait(self))
    }

    /// Begins a synchronisation, unless a capture is in progress.
    pub(super) fn try_wait(&self) -> Option<Wait<'_>> {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if CAPTURES.get() > 0 || *holders > 0 {
            return None;
        }
        *holders -= 1;
        Some(Wait(self))
    }

    /// Adds a capture (1) or a synchronisation (-1), once none of the other kind is in progress.
    fn enter(&self, sign: i64) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        // a nested capture of this thread does not wait
        while *holders * sign < 0 {
            holders = self.changed.wait(holders).unwrap_or_else(PoisonError::into_inner);
        }
        *holders += sign;
    }

    fn leave(&self, sign: i64) {
        *self.holders.lock().unwrap_or_else(PoisonError::into_inner) -= sign;
        self.changed.notify_all();
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        CAPTURES.set(CAPTURES.get() - 1);
        self.0.leave(1);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.leave(-1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[test]
    fn a_thread_does_not_wait_for_its_own_capture() {
        let captures = CaptureLock::default();
        let capture = captures.capture();
        let within = captures.capture();
        assert!(matches!(captures.wait(), Err(CudaError::Capturing { .. })));
        drop((within, capture));
        assert!(captures.wait().is_ok());
    }

    #[test]
    fn a_device_has_one_lock() {
        assert!(Arc::ptr_eq(&CaptureLock::of(7), &CaptureLock::of(7)));
        assert!(!Arc::ptr_eq(&CaptureLock::of(7), &CaptureLock::of(8)));
    }

    #[test]
    fn captures_and_synchronisations_exclude_each_other() {
        let (captures, holders) = (CaptureLock::default(), AtomicI64::new(0));
        let hold = |sign: i64| {
            let before = holders.fetch_add(sign, Ordering::SeqCst);
            assert!(before * sign >= 0, "the other kind is in progress");
            std::thread::yield_now();
            holders.fetch_sub(sign, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (captures, hold) = (&captures, &hold);
                scope.spawn(move || {
                    for round in 0..200 {
                        if (thread + round) % 3 == 0 {
                            let _capture = captures.capture();
                            hold(1);
                        } else {
                            let _wait = captures.wait().expect("no capture of this thread");
                            hold(-1);
                        }
                    }
                });
            }
        });
        assert_eq!(*captures.holders.lock().expect("no thread panicked"), 0);
    }
}
