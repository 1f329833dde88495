//! Host or device memory.

use std::{any::Any, fmt, ops::Deref};

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

impl<'a> Memory<'a, &'a mut [u8]> {
    /// As [`Memory::after`] of memory to read.
    pub(crate) fn after(self, bytes: u64) -> Self {
        match self {
            Memory::Host(data) => Memory::Host(data.get_mut(bytes as usize..).unwrap_or(&mut [])),
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
