//! Arrays of numbers that ops read and write: slots, pages, positions, masks, parameters of rows.

use std::fmt;

use super::OpError;
use crate::batch::I32Slice;
use crate::tensor::memory::{DevicePtr, Memory};
use crate::tensor::{DeviceMemory, Reach};

/// Element types of arrays: i32, i64, u32, u64, u8, f32 and pairs of i32. Sealed.
pub trait Number: bytemuck::Pod + Send + Sync + fmt::Debug + sealed::Sealed {}
impl Number for i32 {}
impl Number for i64 {}
impl Number for u32 {}
impl Number for u64 {}
impl Number for f32 {}
impl Number for u8 {}
impl Number for [i32; 2] {}

/// A contiguous array to read, in host or device memory.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a, T> {
    memory: Memory<'a, &'a [T]>,
    len: usize,
}

/// A contiguous array to write, in host or device memory.
#[derive(Debug)]
pub struct ArrayMut<'a, T> {
    memory: Memory<'a, &'a mut [T]>,
    len: usize,
}

impl<'a, T: Number> Array<'a, T> {
    /// An array in host memory.
    #[must_use]
    pub fn host(values: &'a [T]) -> Self {
        Array { memory: Memory::Host(values), len: values.len() }
    }

    /// `len` numbers at a device pointer, aligned to their size (a pair: to 8 bytes).
    ///
    /// # Safety
    ///
    /// The memory is valid on the device of the op's stream, and written in the order of that stream, until every
    /// launch with it has finished, including replays of captured launches.
    #[must_use]
    pub unsafe fn device(ptr: u64, len: usize) -> Self {
        Array { memory: Memory::Device(DevicePtr::new(ptr)), len }
    }

    /// The first `len` numbers.
    ///
    /// # Errors
    ///
    /// [`OpError::Len`] for an array of fewer.
    pub fn first(self, len: usize) -> Result<Self, OpError> {
        if len > self.len {
            return Err(OpError::Len { array: "array", len: self.len, want: len, exact: false });
        }
        let memory = match self.memory {
            Memory::Host(values) => Memory::Host(&values[..len]),
            Memory::Device(ptr) => Memory::Device(ptr),
        };
        Ok(Array { memory, len })
    }

    /// The numbers, if they are in host memory.
    #[must_use]
    pub fn as_host(&self) -> Option<&'a [T]> {
        match self.memory {
            Memory::Host(values) => Some(values),
            Memory::Device(_) => None,
        }
    }

    /// The numbers in host memory, or an error that names the array.
    pub(crate) fn on_host(&self, array: &'static str) -> Result<&'a [T], OpError> {
        self.as_host().ok_or(OpError::Memory { array, got: "device", want: "host" })
    }

    /// The bytes of its entries.
    pub(crate) fn reach(&self) -> Reach<'_> {
        let address = match &self.memory {
            Memory::Host(values) => values.as_ptr() as u64,
            Memory::Device(ptr) => ptr.address,
        };
        Reach::new(self.device_ptr().is_some(), address, size_of::<T>(), std::slice::from_ref(&self.len), &[1])
    }

    /// Checks the length of the array.
    pub(crate) fn expect_len(&self, array: &'static str, want: usize) -> Result<(), OpError> {
        let len = self.len();
        if len == want { Ok(()) } else { Err(OpError::Len { array, len, want, exact: true }) }
    }
}

impl<'a> From<I32Slice<'a>> for Array<'a, i32> {
    fn from(ints: I32Slice<'a>) -> Self {
        let memory = match (ints.as_host(), ints.device_ptr()) {
            (Some(values), _) => Memory::Host(values),
            (None, ptr) => Memory::Device(DevicePtr::new(ptr.unwrap_or(0))),
        };
        Array { memory, len: ints.len() }
    }
}

impl<'a, T: Number> ArrayMut<'a, T> {
    /// An array in host memory.
    #[must_use]
    pub fn host(values: &'a mut [T]) -> Self {
        ArrayMut { len: values.len(), memory: Memory::Host(values) }
    }

    /// `len` numbers at a device pointer, aligned to their size.
    ///
    /// # Safety
    ///
    /// Nothing else reads or writes the memory meanwhile; the conditions of [`Array::device`].
    #[must_use]
    pub unsafe fn device(ptr: u64, len: usize) -> Self {
        ArrayMut { memory: Memory::Device(DevicePtr::new(ptr)), len }
    }

    /// The first `len` numbers.
    ///
    /// # Errors
    ///
    /// [`OpError::Len`] for an array of fewer.
    pub fn first(self, len: usize) -> Result<Self, OpError> {
        if len > self.len {
            return Err(OpError::Len { array: "array", len: self.len, want: len, exact: false });
        }
        let memory = match self.memory {
            Memory::Host(values) => Memory::Host(&mut values[..len]),
            Memory::Device(ptr) => Memory::Device(ptr),
        };
        Ok(ArrayMut { memory, len })
    }

    pub(crate) fn on_host(&mut self, array: &'static str) -> Result<&mut [T], OpError> {
        match &mut self.memory {
            Memory::Host(values) => Ok(values),
            Memory::Device(_) => Err(OpError::Memory { array, got: "device", want: "host" }),
        }
    }
}

macro_rules! array {
    ($($array:ident),*) => {$(
        impl<'a, T: Number> $array<'a, T> {
            /// Number of entries.
            #[must_use]
            pub fn len(&self) -> usize {
                self.len
            }
            /// Whether there are no entries.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
            /// The device pointer; `None` for host memory.
            #[must_use]
            pub fn device_ptr(&self) -> Option<u64> {
                self.memory.device_ptr()
            }
            /// The same array with the owner of its memory, as
            /// [`TensorRef::owned_by`](crate::tensor::TensorRef::owned_by).
            #[must_use]
            pub fn owned_by(self, owner: &'a dyn DeviceMemory) -> Self {
                $array { memory: self.memory.owned_by(owner), ..self }
            }
            /// The owner of its device memory, if one was named.
            #[must_use]
            pub fn owner(&self) -> Option<&'a dyn DeviceMemory> {
                self.memory.owner()
            }
        }
    )*};
}
array!(Array, ArrayMut);

mod sealed {
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for f32 {}
    impl Sealed for u8 {}
    impl Sealed for [i32; 2] {}
}
