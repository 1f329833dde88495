//! Where tensors of an engine are.

use std::{cell::Cell, slice};

use attn::Engine;
use attn::cuda::{Device, driver};
use attn::ops::{Array, ArrayMut, Number};

use crate::input::{array, check_array};
use crate::status::Failure;

/// The memory of an engine's tensors.
#[derive(Clone, Debug)]
pub(crate) enum Memory {
    Host,
    Device(Device),
}

thread_local! {
    /// Addresses that the driver knew, each in a slot of its own: a step has the same ones again and again.
    static KNOWN: [Cell<u64>; 64] = const { [const { Cell::new(0) }; 64] };
}

impl Memory {
    pub(crate) fn of(engine: &Engine) -> Self {
        engine.device().map_or(Memory::Host, |device| Memory::Device(device.clone()))
    }

    pub(crate) fn is_host(&self) -> bool {
        matches!(self, Memory::Host)
    }

    /// Refuses an address of the other side. What is not an address of anything is not found out.
    pub(crate) fn check(&self, address: u64, name: &str) -> Result<(), Failure> {
        match self {
            Memory::Host if driver::is_device_memory(address) => Err(Failure::tensor(format!(
                "{name} is at {address:#x} in memory of a device, and this engine is the CPU: pass host memory"
            ))),
            Memory::Device(device) if !is_known(device, address) => Err(Failure::tensor(format!(
                "{name} is at {address:#x} in host memory, which the driver does not know: pass memory of {device:?}, \
                or register it"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses entries that cannot be where they are said to be, or are in memory of the other side.
    pub(crate) fn check_array<T>(&self, from: *const T, len: usize, name: &str) -> Result<(), Failure> {
        check_array(from, len, name)?;
        if len > 0 { self.check(from as u64, name) } else { Ok(()) }
    }
}

/// Whether the driver knows an address, or did when this thread asked last.
fn is_known(device: &Device, address: u64) -> bool {
    KNOWN.with(|known| {
        // the golden ratio spreads addresses over the slots
        let slot = &known[(address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize];
        let knows = slot.get() == address || device.knows(address);
        if knows {
            slot.set(address);
        }
        knows
    })
}

/// An array of the caller, in memory of this kind.
///
/// # Safety
///
/// The pointer is null, or that of `len` entries, which live until the work that reads them is done.
pub(crate) unsafe fn numbers<'a, T: Number>(
    from: *const T,
    len: usize,
    memory: &Memory,
    name: &str,
) -> Result<Array<'a, T>, Failure> {
    memory.check_array(from, len, name)?;
    // SAFETY: the caller guarantees it.
    Ok(unsafe {
        match memory {
            Memory::Host => Array::host(array(from, len, name)?),
            Memory::Device(_) => Array::device(from as u64, len),
        }
    })
}

/// An array of the caller to write, in memory of this kind; null is an array of none.
///
/// # Safety
///
/// Nothing else reads or writes the entries while the result lives; the conditions of [`numbers`].
pub(crate) unsafe fn numbers_mut<'a, T: Number>(
    to: *mut T,
    len: usize,
    memory: &Memory,
    name: &str,
) -> Result<ArrayMut<'a, T>, Failure> {
    memory.check_array(to, len, name)?;
    // SAFETY: the caller guarantees it; the address is aligned, and not null where there are entries.
    Ok(unsafe {
        match memory {
            Memory::Host if len == 0 => ArrayMut::host(&mut []),
            Memory::Host => ArrayMut::host(slice::from_raw_parts_mut(to, len)),
            Memory::Device(_) => ArrayMut::device(to as u64, len),
        }
    })
}
