//! The entry points of NVRTC.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use crate::shared_library::{self, entry_points};

/// `nvrtcProgram`.
pub(super) type Program = *mut c_void;
/// `NVRTC_SUCCESS`.
pub(super) const SUCCESS: c_int = 0;
/// `NVRTC_ERROR_COMPILATION`.
pub(super) const COMPILATION: c_int = 6;

entry_points! {
    "nvrtc.h, unchanged since CUDA 11.2.";
    version = "nvrtcVersion": fn(*mut c_int, *mut c_int) -> c_int;
    error_string = "nvrtcGetErrorString": fn(c_int) -> *const c_char;
    num_archs = "nvrtcGetNumSupportedArchs": fn(*mut c_int) -> c_int;
    archs = "nvrtcGetSupportedArchs": fn(*mut c_int) -> c_int;
    create = "nvrtcCreateProgram":
        fn(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int;
    compile = "nvrtcCompileProgram": fn(Program, c_int, *const *const c_char) -> c_int;
    log_size = "nvrtcGetProgramLogSize": fn(Program, *mut usize) -> c_int;
    log = "nvrtcGetProgramLog": fn(Program, *mut c_char) -> c_int;
    cubin_size = "nvrtcGetCUBINSize": fn(Program, *mut usize) -> c_int;
    cubin = "nvrtcGetCUBIN": fn(Program, *mut c_char) -> c_int;
    destroy = "nvrtcDestroyProgram": fn(*mut Program) -> c_int;
}

impl Api {
    pub(super) fn message(&self, code: c_int) -> String {
        // SAFETY: NVRTC gives a static string for every code.
        let text = unsafe { (self.error_string)(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: not null, NUL-terminated and static.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    pub(super) fn check(&self, code: c_int) -> Result<(), String> {
        if code == SUCCESS { Ok(()) } else { Err(self.message(code)) }
    }
}

/// Loads `libnvrtc-builtins` before NVRTC asks for it by bare name, so that it need not be on the loader's path.
pub(super) fn preload_builtins(path: &Path) {
    // SAFETY: the builtins run no initialisers with requirements on the caller.
    match unsafe { shared_library::load(path, true) } {
        Ok(library) => std::mem::forget(library),
        Err(error) => tracing::debug!(path = %path.display(), %error, "NVRTC builtins did not load"),
    }
}
