//! Host or device memory.

use std::fmt;

/// The memory of a tensor. `Host` holds the bytes of whole, aligned elements.
#[derive(Clone, Copy)]
pub(super) enum Memory<H> {
    Host(H),
    Device(u64),
}

impl<H: AsRef<[u8]>> fmt::Debug for Memory<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Host(bytes) => write!(f, "host ({} bytes)", bytes.as_ref().len()),
            Memory::Device(ptr) => write!(f, "device {ptr:#x}"),
        }
    }
}
