//! What callers pass: pointers, text, and structs that may be older or newer than this library.

use std::ffi::{CStr, c_char};
use std::fmt::Display;
use std::slice;

use crate::status::Failure;

/// A struct that begins with its size.
///
/// # Safety
///
/// Its first field is the `size_t` of its size, and every pattern of zeros and of a caller's fields is a value of it.
pub(crate) unsafe trait Versioned: Copy {
    /// Its name, for errors.
    const NAME: &'static str;
    /// The size that it had in the first version.
    const FIRST_SIZE: usize;
}

/// Reads a struct of the caller: an older one has zeros in its further fields, and a newer one must have them.
///
/// # Safety
///
/// The pointer is null, or that of a struct that begins with its size.
pub(crate) unsafe fn versioned<T: Versioned>(from: *const T) -> Result<T, Failure> {
    if from.is_null() {
        return Err(Failure::argument(format!("{} is null", T::NAME)));
    }
    // SAFETY: a size is its first field.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    // no struct ends within a pointer
    if size < T::FIRST_SIZE || size > (1 << 16) || !size.is_multiple_of(align_of::<T>()) {
        let (first, of) = (T::FIRST_SIZE, align_of::<T>());
        return Err(Failure::argument(format!(
            "{}.size is {size}, and its first version has {first} bytes, and each a multiple of {of}: set it to sizeof \
             of the struct",
            T::NAME
        )));
    }
    // SAFETY: the caller's struct has `size` bytes.
    let bytes = unsafe { slice::from_raw_parts(from.cast::<u8>(), size) };
    let known = size.min(size_of::<T>());
    if bytes[known..].iter().any(|&byte| byte != 0) {
        return Err(Failure::argument(format!(
            "{} sets fields that this version of the library does not have: it has {} bytes, and the caller {size}",
            T::NAME,
            size_of::<T>()
        )));
    }
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `known` bytes fit both; zeros are a value of the rest, as the trait says.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast::<u8>(), known);
        Ok(value.assume_init())
    }
}

/// # Safety
///
/// The pointer is null, or that of a live handle.
pub(crate) unsafe fn handle<'a, T>(from: *const T, name: &str) -> Result<&'a T, Failure> {
    check_place(from, name)?;
    // SAFETY: the caller guarantees it.
    unsafe { from.as_ref() }.ok_or_else(|| Failure::argument(format!("the {name} is null")))
}

/// # Safety
///
/// The pointer is null, or that of a live handle that nothing else uses during the call.
pub(crate) unsafe fn handle_mut<'a, T>(from: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    check_place(from, name)?;
    // SAFETY: the caller guarantees it.
    unsafe { from.as_mut() }.ok_or_else(|| Failure::argument(format!("the {name} is null")))
}

/// Gives a new handle to the caller.
///
/// # Safety
///
/// The pointer is null, or to where a pointer may be written.
pub(crate) unsafe fn give<T>(to: *mut *mut T, make: impl FnOnce() -> Result<T, Failure>) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::argument("where the new handle goes is null"));
    }
    check_place(to, "place of the new handle")?;
    // SAFETY: it is not null, and aligned.
    unsafe { to.write(std::ptr::null_mut()) };
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: as above.
    unsafe { to.write(made) };
    Ok(())
}

/// # Safety
///
/// The pointer is null, or that of text that ends with a zero and lives during the call.
pub(crate) unsafe fn text<'a>(from: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if from.is_null() {
        return Err(Failure::argument(format!("{name} is null")));
    }
    // SAFETY: the caller guarantees it.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map_err(|_| Failure::argument(format!("{name} is not UTF-8")))
}

/// Refuses an address where no such object can be. Null is refused elsewhere.
fn check_place<T>(at: *const T, name: &str) -> Result<(), Failure> {
    let of = align_of::<T>();
    if at.is_aligned() { Ok(()) } else { Err(Failure::argument(format!("the {name} is at no multiple of {of} bytes"))) }
}

/// Refuses entries at null, at an address where they cannot be, and more of them than there is memory.
pub(crate) fn check_array<T>(from: *const T, len: usize, name: &str) -> Result<(), Failure> {
    let of_entry = align_of::<T>();
    let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
    let end = bytes.and_then(|bytes| from.addr().checked_add(bytes));
    match (from.is_null(), len) {
        (_, 0) => Ok(()),
        _ if end.is_none() => {
            Err(Failure::argument(format!("{name} should have {len} entries, and memory has no room for so many")))
        }
        (true, _) => Err(Failure::argument(format!("{name} is null, and should have {len} entries"))),
        _ if !from.is_aligned() => Err(Failure::argument(format!("{name} is at no multiple of {of_entry} bytes"))),
        _ => Ok(()),
    }
}

/// An array of `len` entries; null is an array of none.
///
/// # Safety
///
/// The pointer is null, or that of `len` entries that live during the call.
pub(crate) unsafe fn array<'a, T>(from: *const T, len: usize, name: &str) -> Result<&'a [T], Failure> {
    check_array(from, len, name)?;
    // SAFETY: the caller guarantees it.
    Ok(if len == 0 { &[] } else { unsafe { slice::from_raw_parts(from, len) } })
}

/// Refuses what a caller sets in a field that has no meaning yet: a newer version gives it one.
pub(crate) fn check_reserved(reserved: u32, name: &str) -> Result<(), Failure> {
    match reserved {
        0 => Ok(()),
        _ => Err(Failure::argument(format!("{name} is {reserved}; it is 0 in this version: zero the struct first"))),
    }
}

/// A member of an enum, from the number that the caller passed.
pub(crate) fn member<T: Copy>(number: u32, members: &[T], name: impl Display) -> Result<T, Failure> {
    let member = members.get(number as usize).copied();
    member.ok_or_else(|| {
        Failure::argument(format!("{name} is {number}, and its values are 0 to {}", members.len().saturating_sub(1)))
    })
}
