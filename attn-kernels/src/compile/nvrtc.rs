//! NVRTC, loaded at run time.

mod api;
mod find;
mod library;

use std::sync::OnceLock;

use super::NoCompiler;

pub use library::Nvrtc;

impl Nvrtc {
    /// Finds and loads NVRTC once per process.
    ///
    /// Searches `ATTN_NVRTC` (the library or its folder; if set, nothing else), the loader's path, on Windows the
    /// absolute folders of `PATH`, `CUDA_HOME`, `CUDA_PATH`, `/usr/local/cuda`, and the Python packages
    /// `nvidia-cuda-nvrtc` of the environment. 13 before 12. No other folder is searched, and neither the working
    /// folder nor a relative `CUDA_HOME` or `CUDA_PATH` is.
    ///
    /// # Errors
    ///
    /// The places that were searched.
    pub fn find() -> Result<&'static Nvrtc, NoCompiler> {
        static FOUND: OnceLock<Result<Nvrtc, NoCompiler>> = OnceLock::new();
        FOUND.get_or_init(find::find).as_ref().map_err(Clone::clone)
    }
}
