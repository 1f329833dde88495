//! Numbers that ops read and write beside tensors: slots, pages, positions, masks.

use std::fmt;

use super::OpError;
use crate::batch::Ints;

/// What arrays are of: i32, i64, u32, u8 and pairs of i32. Sealed.
pub trait Number: bytemuck::Pod + Send + Sync + fmt::Debug + sealed::Sealed {}
impl Number for i32 {}
impl Number for i64 {}
impl Number for u32 {}
impl Number for u8 {}
impl Number for [i32; 2] {}

/// Contiguous numbers that are read, in memory of the host or of a device.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a, T> {
    place: Place<&'a [T]>,
}

/// Contiguous numbers that are written.
#[derive(Debug)]
pub struct ArrayMut<'a, T> {
    place: Place<&'a mut [T]>,
}

#[derive(Clone, Copy, Debug)]
enum Place<H> {
    Host(H),
    Device { ptr: u64, len: usize },
}

impl<'a, T: Number> Array<'a, T> {
    /// Numbers in memory of the host.
    #[must_use]
    pub fn host(values: &'a [T]) -> Self {
        Array { place: Place::Host(values) }
    }

    /// `len` numbers at a device pointer, aligned to their size (a pair: to 8 bytes).
    ///
    /// # Safety
    ///
    /// They are there, and are written in the order of the stream that an op is given to, until everything that was launched with them, captured
    /// launches that are replayed included, has finished.
    #[must_use]
    pub unsafe fn device(ptr: u64, len: usize) -> Self {
        Array { place: Place::Device { ptr, len } }
    }

    /// The numbers, if they are in memory of the host.
    #[must_use]
    pub fn as_host(&self) -> Option<&'a [T]> {
        match self.place {
            Place::Host(values) => Some(values),
            Place::Device { .. } => None,
        }
    }

    /// The numbers on the host, or an error that names the array.
    pub(crate) fn on_host(&self, array: &'static str) -> Result<&'a [T], OpError> {
        self.as_host().ok_or(OpError::Memory { array, got: "device", want: "host" })
    }

    /// Checks that there are as many as something else needs.
    pub(crate) fn expect_len(&self, array: &'static str, want: usize) -> Result<(), OpError> {
        let len = self.len();
        if len == want { Ok(()) } else { Err(OpError::Len { array, len, want, exact: true }) }
    }
}

impl<'a> From<Ints<'a>> for Array<'a, i32> {
    fn from(ints: Ints<'a>) -> Self {
        let place = match (ints.as_host(), ints.device_ptr()) {
            (Some(values), _) => Place::Host(values),
            (None, ptr) => Place::Device { ptr: ptr.unwrap_or(0), len: ints.len() },
        };
        Array { place }
    }
}

impl<'a, T: Number> ArrayMut<'a, T> {
    /// Numbers in memory of the host.
    #[must_use]
    pub fn host(values: &'a mut [T]) -> Self {
        ArrayMut { place: Place::Host(values) }
    }

    /// `len` numbers at a device pointer, aligned to their size.
    ///
    /// # Safety
    ///
    /// As [`Array::device`], and nothing else reads or writes there meanwhile.
    #[must_use]
    pub unsafe fn device(ptr: u64, len: usize) -> Self {
        ArrayMut { place: Place::Device { ptr, len } }
    }

    pub(crate) fn on_host(&mut self, array: &'static str) -> Result<&mut [T], OpError> {
        match &mut self.place {
            Place::Host(values) => Ok(values),
            Place::Device { .. } => Err(OpError::Memory { array, got: "device", want: "host" }),
        }
    }
}

macro_rules! array {
    ($($array:ident),*) => {$(
        impl<T: Number> $array<'_, T> {
            /// How many.
            #[must_use]
            pub fn len(&self) -> usize {
                match &self.place {
                    Place::Host(values) => values.len(),
                    Place::Device { len, .. } => *len,
                }
            }
            /// Whether there are none.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
            /// The device pointer; `None` for memory of the host.
            #[must_use]
            pub fn device_ptr(&self) -> Option<u64> {
                match self.place {
                    Place::Host(_) => None,
                    Place::Device { ptr, .. } => Some(ptr),
                }
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
    impl Sealed for u8 {}
    impl Sealed for [i32; 2] {}
}
