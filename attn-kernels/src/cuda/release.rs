//! Memory and modules whose owners are gone. The device may still use them, so it is waited for before they are freed.
//! Under a capture nothing may wait: they stay until later.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::driver::{
    result::{self, DriverError, module},
    sys::{CUmodule, CUresult},
};

use super::capture_lock::CaptureLock;

/// What is freed.
#[derive(Debug)]
pub(super) enum Released {
    /// Device memory.
    Memory(u64),
    /// Pinned host memory.
    Pinned(*mut u8),
    /// A loaded module.
    Module(CUmodule),
}

// SAFETY: the driver frees memory and unloads modules in any thread in which their context is current.
unsafe impl Send for Released {}

impl Released {
    /// Frees it. The context is current.
    ///
    /// # Safety
    ///
    /// It is allocated or loaded, and neither host nor device uses it again.
    pub(super) unsafe fn free(self) {
        // a failure is ignored, because a drop cannot return it
        // SAFETY: the caller's promise.
        let _ = unsafe {
            match self {
                Released::Memory(ptr) => result::free_sync(ptr),
                Released::Pinned(ptr) => result::free_host(ptr.cast()),
                Released::Module(raw) => module::unload(raw),
            }
        };
    }
}

/// Things that wait to be freed.
#[derive(Debug)]
pub(super) struct Deferred<T>(Mutex<Vec<T>>);

impl<T> Default for Deferred<T> {
    fn default() -> Self {
        Deferred(Mutex::default())
    }
}

impl<T> Deferred<T> {
    /// Frees `item` and what was deferred, once `wait` has waited for the device. Where a capture is in progress on the
    /// device, or `wait` returns false, `item` is deferred. Never waits for a capture.
    pub(super) fn release(
        &self,
        captures: &CaptureLock,
        item: Option<T>,
        wait: impl FnOnce() -> bool,
        free: impl FnMut(T),
    ) {
        self.lock().extend(item);
        let Some(_no_capture) = captures.try_wait() else { return };
        if !self.is_empty() && wait() {
            self.take().into_iter().for_each(free);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Takes all of them.
    pub(super) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for all work of the current context. Returns whether nothing runs: a device in error state cannot be waited
/// for and runs nothing, but one that refuses because of a capture may run anything.
pub(super) fn wait_for_context() -> bool {
    result::ctx::synchronize().map_or_else(|error| !is_of_capture(error), |()| true)
}

fn is_of_capture(error: DriverError) -> bool {
    (CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED as u32..=CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD as u32)
        .contains(&(error.0 as u32))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Releases, and returns what was freed.
    fn freed(deferred: &Deferred<u32>, captures: &CaptureLock, item: Option<u32>, is_idle: bool) -> Vec<u32> {
        let log = RefCell::new(Vec::new());
        deferred.release(captures, item, || is_idle, |item| log.borrow_mut().push(item));
        log.into_inner()
    }

    #[test]
    fn nothing_is_freed_under_a_capture_and_everything_after_it() {
        let (deferred, captures) = (Deferred::default(), CaptureLock::default());
        assert_eq!(freed(&deferred, &captures, Some(1), true), [1]);
        let outer = captures.capture();
        let inner = captures.capture();
        assert_eq!(freed(&deferred, &captures, Some(2), true), [0u32; 0]);
        drop(inner);
        assert_eq!(freed(&deferred, &captures, Some(3), true), [0u32; 0], "the outer capture goes on");
        drop(outer);
        assert_eq!(freed(&deferred, &captures, None, true), [2, 3]);
        assert_eq!(freed(&deferred, &captures, None, true), [0u32; 0], "each once");
    }

    #[test]
    fn a_capture_of_another_thread_is_not_waited_for() {
        let (deferred, captures) = (Deferred::default(), CaptureLock::default());
        let capture = captures.capture();
        std::thread::scope(|scope| {
            let freed = scope.spawn(|| freed(&deferred, &captures, Some(1), true)).join().expect("it returns");
            assert_eq!(freed, [0u32; 0]);
        });
        drop(capture);
        assert_eq!(freed(&deferred, &captures, None, true), [1]);
    }

    #[test]
    fn a_refused_wait_defers() {
        let (deferred, captures) = (Deferred::default(), CaptureLock::default());
        assert_eq!(freed(&deferred, &captures, Some(1), false), [0u32; 0]);
        assert!(!deferred.is_empty());
        assert_eq!(freed(&deferred, &captures, Some(2), true), [1, 2]);
    }

    #[test]
    fn errors_of_captures_are_told_from_faults() {
        for code in [CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT] {
            assert!(is_of_capture(DriverError(code)), "{code:?}");
        }
        for code in [CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, CUresult::CUDA_ERROR_UNKNOWN, CUresult::CUDA_SUCCESS] {
            assert!(!is_of_capture(DriverError(code)), "{code:?}");
        }
    }
}
