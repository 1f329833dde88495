//! Host or device memory.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::{fmt, slice};

/// The owner of device memory, which a descriptor names so that runs can check and order its use.
///
/// A backend implements it for its buffers and recognises them by their type: runs are ordered with other work on those
/// alone. An owner of another type gives the check of its [device](DeviceMemory::device), and no order. Memory that is
/// given as an address has no owner: its device and its order are what the caller promised.
pub trait DeviceMemory: Any + fmt::Debug + Send + Sync {
    /// The ordinal of the device.
    fn device(&self) -> u32;
}

/// The memory of a tensor or array. `Host` holds whole, aligned elements.
#[derive(Clone, Copy)]
pub(crate) enum Memory<'a, H> {
    Host(H),
    Device(DevicePtr<'a>),
}

/// Host memory to write. It is an address, and a slice only where it is borrowed: elements of two tensors may
/// interleave, and a slice of each would be of the same bytes.
pub(crate) struct HostMut<'a> {
    data: *mut u8,
    len: usize,
    of: PhantomData<&'a mut [u8]>,
}

// SAFETY: it stands for a mutable slice of bytes.
unsafe impl Send for HostMut<'_> {}
// SAFETY: as above; a shared reference reads alone.
unsafe impl Sync for HostMut<'_> {}

impl<'a> HostMut<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        HostMut { data: bytes.as_mut_ptr(), len: bytes.len(), of: PhantomData }
    }

    /// Memory at an address.
    ///
    /// # Safety
    ///
    /// While it lives, the `len` bytes are there. Nothing else reads or writes those of them that are borrowed, while
    /// they are.
    pub(crate) unsafe fn raw(data: *mut u8, len: usize) -> Self {
        HostMut { data, len, of: PhantomData }
    }

    pub(crate) fn reborrow(&mut self) -> HostMut<'_> {
        HostMut { of: PhantomData, ..*self }
    }

    /// Some of the bytes alone.
    ///
    /// # Panics
    ///
    /// Bytes past the end.
    pub(crate) fn range(&mut self, first: usize, len: usize) -> &mut [u8] {
        assert!(first.checked_add(len).is_some_and(|end| end <= self.len), "{len} bytes at {first} of {}", self.len);
        // SAFETY: they are within the memory, and borrowed with this.
        unsafe { slice::from_raw_parts_mut(self.data.add(first), len) }
    }
}

impl Deref for HostMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is there.
        unsafe { slice::from_raw_parts(self.data, self.len) }
    }
}

impl DerefMut for HostMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.range(0, self.len)
    }
}

/// An address in device memory.
#[derive(Clone, Copy)]
pub(crate) struct DevicePtr<'a> {
    pub(crate) address: u64,
    pub(crate) owner: Option<&'a dyn DeviceMemory>,
}

impl<'a> DevicePtr<'a> {
    /// An address whose owner is not known.
    pub(crate) fn new(address: u64) -> Self {
        DevicePtr { address, owner: None }
    }

    pub(crate) fn after(self, bytes: u64) -> Self {
        DevicePtr { address: self.address.wrapping_add(bytes), ..self }
    }
}

impl<'a, H> Memory<'a, H> {
    /// The same memory with an owner, if it is on a device and has none yet.
    pub(crate) fn owned_by(self, owner: &'a dyn DeviceMemory) -> Self {
        match self {
            Memory::Host(host) => Memory::Host(host),
            Memory::Device(ptr) => Memory::Device(DevicePtr { owner: ptr.owner.or(Some(owner)), ..ptr }),
        }
    }

    pub(crate) fn owner(&self) -> Option<&'a dyn DeviceMemory> {
        match self {
            Memory::Host(_) => None,
            Memory::Device(ptr) => ptr.owner,
        }
    }

    pub(crate) fn device_ptr(&self) -> Option<u64> {
        match self {
            Memory::Host(_) => None,
            Memory::Device(ptr) => Some(ptr.address),
        }
    }
}

impl<'a> Memory<'a, &'a [u8]> {
    /// The memory from a byte on. An empty tensor may lie past the end of its slice.
    pub(crate) fn after(self, bytes: u64) -> Self {
        match self {
            Memory::Host(data) => Memory::Host(data.get(bytes as usize..).unwrap_or(&[])),
            Memory::Device(ptr) => Memory::Device(ptr.after(bytes)),
        }
    }
}

impl<'a> Memory<'a, HostMut<'a>> {
    pub(crate) fn after(self, bytes: u64) -> Self {
        match self {
            Memory::Host(HostMut { data, len, of }) => {
                let bytes = usize::try_from(bytes).unwrap_or(len).min(len);
                // SAFETY: at most its end.
                Memory::Host(HostMut { data: unsafe { data.add(bytes) }, len: len - bytes, of })
            }
            Memory::Device(ptr) => Memory::Device(ptr.after(bytes)),
        }
    }
}

impl<T, H: Deref<Target = [T]>> fmt::Debug for Memory<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Host(host) => write!(f, "host ({} bytes)", size_of_val::<[T]>(host)),
            Memory::Device(ptr) => ptr.fmt(f),
        }
    }
}

impl fmt::Debug for DevicePtr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address;
        match self.owner {
            Some(owner) => write!(f, "device {} at {address:#x}", owner.device()),
            None => write!(f, "device {address:#x}"),
        }
    }
}
