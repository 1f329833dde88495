//! Which tests of this process may use a GPU at the same time.
//!
//! While another library captures a stream in its default mode, no thread of the process may allocate, load a kernel or
//! wait for the device: the driver refuses the call, and the capture ends. Our own captures are of one thread.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static GPU: RwLock<()> = RwLock::new(());

/// Held by a test on a GPU; others may run beside it. A thread takes it once.
pub(crate) fn beside() -> RwLockReadGuard<'static, ()> {
    GPU.read().unwrap_or_else(PoisonError::into_inner)
}

/// Held by a test that captures with another library, or counts memory: no other test uses a GPU.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    GPU.write().unwrap_or_else(PoisonError::into_inner)
}
