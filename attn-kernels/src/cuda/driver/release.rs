//! Memory and modules whose owners are gone. The device may still use them, so it is waited for before they are freed.
//! Under a capture nothing may wait: they stay until later.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::result::{self, DriverError, module, primary_ctx};
use cudarc::driver::sys::{CUdevice, CUmodule, CUresult};

use super::capture_lock::CaptureLock;

/// What is freed.
#[derive(Debug)]
pub(in crate::cuda) enum Released {
    /// Device memory.
    Memory(u64),
    /// Pinned host memory.
    Pinned(*mut u8),
    /// A loaded module.
    Module(CUmodule),
    /// A primary context that was retained once more, for the things that were deferred before.
    Context(CUdevice),
}

// SAFETY: the driver frees memory and unloads modules in any thread in which their context is current, and it releases
// contexts in any thread.
unsafe impl Send for Released {}

impl Released {
    /// Frees it. The context is current.
    ///
    /// # Safety
    ///
    /// It is allocated, loaded or retained, and neither host nor device uses it again. The caller retains the context.
    pub(super) unsafe fn free(self) {
        // a failure is ignored, because a drop cannot return it
        // SAFETY: the caller's promise.
        let _ = unsafe {
            match self {
                Released::Memory(ptr) => result::free_sync(ptr),
                Released::Pinned(ptr) => result::free_host(ptr.cast()),
                Released::Module(raw) => module::unload(raw),
                Released::Context(raw) => primary_ctx::release(raw),
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

impl Deferred<Released> {
    /// What a device has to free, by its ordinal. All [`Device`](super::device::Device) objects of an ordinal share it,
    /// since they share a context. As long as it is not empty, one of them lives or the list itself retains the
    /// context.
    pub(super) fn of(ordinal: u32) -> Arc<Self> {
        static OF_DEVICES: Mutex<BTreeMap<u32, Arc<Deferred<Released>>>> = Mutex::new(BTreeMap::new());
        OF_DEVICES.lock().unwrap_or_else(PoisonError::into_inner).entry(ordinal).or_default().clone()
    }
}

impl<T> Deferred<T> {
    /// Frees `items` and what was deferred, once `wait` has waited for the device. Where a capture is in progress on
    /// the device, or `wait` returns false, `items` are deferred. Never waits for a capture.
    pub(in crate::cuda) fn release(
        &self,
        captures: &CaptureLock,
        items: impl IntoIterator<Item = T>,
        wait: impl FnOnce() -> bool,
        free: impl FnMut(T),
    ) {
        let Some(_no_capture) = captures.try_wait() else { return self.defer(items) };
        // what others defer from here on may be in use after the wait
        let mut released = mem::take(&mut *self.lock());
        released.extend(items);
        if released.is_empty() {
            return;
        }
        if wait() {
            released.into_iter().for_each(free);
        } else {
            self.defer(released);
        }
    }

    /// Adds items that are freed later.
    pub(super) fn defer(&self, items: impl IntoIterator<Item = T>) {
        self.lock().extend(items);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
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
    fn what_others_release_during_the_wait_is_not_freed() {
        let (deferred, captures) = (Deferred::default(), CaptureLock::default());
        let log = RefCell::new(Vec::new());
        let wait = || {
            assert_eq!(freed(&deferred, &captures, Some(2), false), [0u32; 0]);
            true
        };
        deferred.release(&captures, [1], wait, |item| log.borrow_mut().push(item));
        assert_eq!(log.into_inner(), [1], "nobody has waited for 2");
        assert_eq!(freed(&deferred, &captures, None, true), [2]);
    }

    #[test]
    fn a_device_has_one_list() {
        let list = Deferred::of(7);
        assert!(Arc::ptr_eq(&list, &Deferred::of(7)) && !Arc::ptr_eq(&list, &Deferred::of(8)));
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
