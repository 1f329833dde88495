//! Shared libraries, which are never searched in the working folder.

use std::error::Error as _;
use std::path::Path;

use libloading::Library;

/// Defines the struct `Api`: a library that is never unloaded, so that its entry points stay valid. `$header` is where
/// their signatures are from.
macro_rules! entry_points {
    ($header:literal; $($field:ident = $symbol:literal: fn($($arg:ty),*) -> $ret:ty;)*) => {
        #[doc = concat!("The library and its entry points, with the signatures of ", $header)]
        pub(super) struct Api {
            $(pub(super) $field: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        impl Api {
            /// Loads a library, and binds its entry points.
            ///
            /// # Safety
            ///
            /// As [`load`](crate::shared_library::load).
            pub(super) unsafe fn load(path: &std::path::Path, global: bool) -> Result<Self, String> {
                // SAFETY: the caller's promise.
                let library = unsafe { $crate::shared_library::load(path, global) };
                let library = library.map_err(|error| $crate::shared_library::reason(&error))?;
                let library: &'static libloading::Library = Box::leak(Box::new(library));
                Ok(Api { $(
                    // SAFETY: the signature is that of the header.
                    $field: *unsafe { library.get(concat!($symbol, "\0")) }
                        .map_err(|error| $crate::shared_library::reason(&error))?,
                )* })
            }
        }
    };
}
pub(crate) use entry_points;

/// The message of the loader, which `libloading` keeps in the source of its error.
pub(crate) fn reason(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Loads a library by its absolute path, or by a bare name from the folders of the system. On Unix its symbols are seen
/// by libraries that are loaded later, if it is `global`.
///
/// # Safety
///
/// Initialisers of the library have no requirements on the caller.
#[cfg_attr(windows, allow(unused_variables))] // there each library names those that it needs
pub(crate) unsafe fn load(path: &Path, global: bool) -> Result<Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library as Unix, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
        let scope = if global { RTLD_GLOBAL } else { RTLD_LOCAL };
        // the loader searches no working folder, unless its path says so
        // SAFETY: the caller's promise.
        unsafe { Unix::open(Some(path), RTLD_NOW | scope) }.map(Into::into)
    }
    #[cfg(windows)]
    {
        use libloading::os::windows::{
            LOAD_LIBRARY_SEARCH_DEFAULT_DIRS, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR, Library as Windows,
        };
        // those of the program and of the system, and what it has added; without flags also the working folder
        let of_name = LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
        // what the library needs lies beside it; the system takes this for an absolute path alone
        let flags = if path.is_absolute() { of_name | LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR } else { of_name };
        // SAFETY: the caller's promise.
        unsafe { Windows::load_with_flags(path.as_os_str(), flags) }.map(Into::into)
    }
}

/// Calls something that loads libraries by bare names, which the system then does not search in the working folder.
#[cfg(all(windows, feature = "cuda"))]
pub(crate) fn without_working_folder<T>(load: impl FnOnce() -> T) -> T {
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetDllDirectoryW(length: u32, path: *mut u16) -> u32;
        fn SetDllDirectoryW(path: *const u16) -> i32;
    }
    let mut before = [0u16; 1024];
    // SAFETY: the buffer has as many units. None are written where there is no folder, which is 0.
    let length = unsafe { GetDllDirectoryW(before.len() as u32, before.as_mut_ptr()) };
    // SAFETY: an empty text, which ends with a zero; it takes the working folder out of the search.
    unsafe { SetDllDirectoryW([0u16].as_ptr()) };
    let loaded = load();
    // SAFETY: what was set, which ends with a zero, or null for the order of the system.
    unsafe { SetDllDirectoryW(if length == 0 { std::ptr::null() } else { before.as_ptr() }) };
    loaded
}

/// As on Windows. Here bare names are not searched in the working folder.
#[cfg(all(not(windows), feature = "cuda"))]
pub(crate) fn without_working_folder<T>(load: impl FnOnce() -> T) -> T {
    load()
}
