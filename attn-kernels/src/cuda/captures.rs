//! Captures and waits take turns: who waits for a whole device while one of its streams is being captured, in whatever thread, gets an error, or ends the
//! capture with one. So captures wait for waits, waits for captures, and neither for its own kind.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::CudaError;

thread_local! {
    /// Captures that this thread is in.
    static CAPTURES: Cell<u32> = const { Cell::new(0) };
}

/// Who is at it, on one device.
#[derive(Debug, Default)]
pub(super) struct Captures {
    /// Captures, or, below 0, waits.
    at_it: Mutex<i64>,
    changed: Condvar,
}

/// A capture under way, until it is dropped.
#[must_use = "the capture ends with it"]
pub(super) struct Capture<'a>(&'a Captures);

/// A wait under way, until it is dropped.
#[must_use = "the wait ends with it"]
pub(super) struct Wait<'a>(&'a Captures);

impl Captures {
    /// Those of a device by its number: the same for every [`Device`](super::Device) made of it, since they have one context.
    pub(super) fn of(ordinal: u32) -> Arc<Self> {
        static OF_DEVICES: Mutex<BTreeMap<u32, Arc<Captures>>> = Mutex::new(BTreeMap::new());
        OF_DEVICES.lock().unwrap_or_else(PoisonError::into_inner).entry(ordinal).or_default().clone()
    }

    /// Begins a capture, when nobody waits for the device.
    pub(super) fn capture(&self) -> Capture<'_> {
        self.enter(1);
        CAPTURES.set(CAPTURES.get() + 1);
        Capture(self)
    }

    /// Begins to wait for the device, when nothing is captured.
    ///
    /// # Errors
    ///
    /// This very thread captures: it would wait for itself.
    pub(super) fn wait(&self) -> Result<Wait<'_>, CudaError> {
        if CAPTURES.get() > 0 {
            return Err(CudaError::Capturing { what: "wait for the device" });
        }
        self.enter(-1);
        Ok(Wait(self))
    }

    /// One more of the kind `sign`, when none of the other is left.
    fn enter(&self, sign: i64) {
        let mut at_it = self.at_it.lock().unwrap_or_else(PoisonError::into_inner);
        // a capture within another, of this thread, goes on
        while *at_it * sign < 0 {
            at_it = self.changed.wait(at_it).unwrap_or_else(PoisonError::into_inner);
        }
        *at_it += sign;
    }

    fn leave(&self, sign: i64) {
        *self.at_it.lock().unwrap_or_else(PoisonError::into_inner) -= sign;
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
        let captures = Captures::default();
        let capture = captures.capture();
        let within = captures.capture();
        assert!(matches!(captures.wait(), Err(CudaError::Capturing { .. })));
        drop((within, capture));
        assert!(captures.wait().is_ok());
    }

    #[test]
    fn a_device_that_is_opened_twice_is_one() {
        assert!(Arc::ptr_eq(&Captures::of(7), &Captures::of(7)));
        assert!(!Arc::ptr_eq(&Captures::of(7), &Captures::of(8)));
    }

    #[test]
    fn captures_and_waits_never_meet() {
        let (captures, at_it) = (Captures::default(), AtomicI64::new(0));
        let turn = |sign: i64| {
            let before = at_it.fetch_add(sign, Ordering::SeqCst);
            assert!(before * sign >= 0, "the other kind is at it");
            std::thread::yield_now();
            at_it.fetch_sub(sign, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (captures, turn) = (&captures, &turn);
                scope.spawn(move || {
                    for round in 0..200 {
                        if (thread + round) % 3 == 0 {
                            let _capture = captures.capture();
                            turn(1);
                        } else {
                            let _wait = captures.wait().expect("no capture of this thread");
                            turn(-1);
                        }
                    }
                });
            }
        });
        assert_eq!(*captures.at_it.lock().expect("nobody panicked"), 0);
    }
}
