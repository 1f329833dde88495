//! Arrays of i32 in device memory.

/// An array of i32 in device memory, or in host memory for the CPU backend.
#[derive(Clone, Copy, Debug)]
pub struct I32Slice<'a> {
    memory: I32Memory<'a>,
}

#[derive(Clone, Copy, Debug)]
enum I32Memory<'a> {
    Host(&'a [i32]),
    Device { ptr: u64, len: usize },
}

impl<'a> I32Slice<'a> {
    /// An array in host memory, for the CPU backend.
    #[must_use]
    pub fn host(values: &'a [i32]) -> Self {
        I32Slice { memory: I32Memory::Host(values) }
    }

    /// `len` contiguous i32 at a device pointer that is aligned to 4 bytes.
    ///
    /// # Safety
    ///
    /// The memory is valid on the device of each update that reads it, and written in stream order before these
    /// updates, until all work launched with it has finished, replayed graph captures included.
    #[must_use]
    pub unsafe fn device(ptr: u64, len: usize) -> Self {
        I32Slice { memory: I32Memory::Device { ptr, len } }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.memory {
            I32Memory::Host(values) => values.len(),
            I32Memory::Device { len, .. } => len,
        }
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements; `None` in device memory.
    #[must_use]
    pub fn as_host(&self) -> Option<&'a [i32]> {
        match self.memory {
            I32Memory::Host(values) => Some(values),
            I32Memory::Device { .. } => None,
        }
    }

    /// The device pointer; `None` in host memory.
    #[must_use]
    pub fn device_ptr(&self) -> Option<u64> {
        match self.memory {
            I32Memory::Host(_) => None,
            I32Memory::Device { ptr, .. } => Some(ptr),
        }
    }
}
