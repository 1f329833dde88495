//! A tensor that a producer lends, as DLPack (its versions 0 and 1) lays it out.

use std::ffi::{CStr, c_void};

use pyo3::{ffi, prelude::*, types::PyCapsule};

use crate::error::Failure;

const READ_ONLY: u64 = 1;

#[repr(C)]
pub(crate) struct Tensor {
    pub(super) data: *mut c_void,
    device: [i32; 2],
    pub(super) rank: i32,
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
    pub(super) shape: *const i64,
    pub(super) strides: *const i64,
    pub(super) byte_offset: u64,
}

#[repr(C)]
pub(crate) struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
pub(crate) struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// A tensor that the producer lends until this is dropped.
pub(crate) enum Lent {
    Old(*mut Managed),
    New(*mut Versioned),
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: the capsule gave the tensor away, so its deleter is called here, once
        unsafe {
            match *self {
                Lent::Old(managed) => (*managed).deleter.into_iter().for_each(|delete| delete(managed)),
                Lent::New(managed) => (*managed).deleter.into_iter().for_each(|delete| delete(managed)),
            }
        }
    }
}

impl Lent {
    pub(super) fn tensor(&self) -> &Tensor {
        // SAFETY: both live until the deleter is called
        unsafe {
            match *self {
                Lent::Old(managed) => &(*managed).tensor,
                Lent::New(managed) => &(*managed).tensor,
            }
        }
    }

    /// Takes the tensor of a capsule, which is marked as used.
    pub(super) fn take(capsule: &Bound<'_, PyCapsule>, name: &str) -> Result<Self, Failure> {
        let take = |named: &'static CStr, used: &'static CStr| {
            // SAFETY: a live capsule; a pointer is given only if its name is `named`
            unsafe {
                if ffi::PyCapsule_IsValid(capsule.as_ptr(), named.as_ptr()) == 0 {
                    return None;
                }
                let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), named.as_ptr());
                (ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) == 0).then_some(pointer)
            }
        };
        if let Some(pointer) = take(c"dltensor_versioned", c"used_dltensor_versioned") {
            let lent = Lent::New(pointer.cast());
            // SAFETY: the version comes first in every version
            let major = unsafe { (*pointer.cast::<Versioned>()).version[0] };
            return match major {
                0 | 1 => Ok(lent),
                _ => Err(Failure::tensor(format!("{name} comes as DLPack {major}; versions 0 and 1 are known"))),
            };
        }
        let pointer = take(c"dltensor", c"used_dltensor");
        let pointer =
            pointer.ok_or_else(|| Failure::tensor(format!("{name} gave a capsule that is used or no tensor")))?;
        Ok(Lent::Old(pointer.cast()))
    }
    pub(super) fn is_read_only(&self) -> bool {
        match *self {
            Lent::Old(_) => false,
            // SAFETY: it lives until the deleter is called
            Lent::New(managed) => unsafe { (*managed).flags & READ_ONLY != 0 },
        }
    }
}
