//! Errors of compilation: no compiler, with how to get one, or a text that it rejected, with its log.

use std::{env, fs, io::Write as _, path::PathBuf};

use super::Arch;
use crate::sha256::sha256_hex;

/// No CUDA compiler was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no compiler of CUDA found: {}. {}", .tried.join("; "), HOW_TO_GET_ONE)]
pub struct NoCompiler {
    /// The places that were searched, and why each failed.
    pub tried: Vec<String>,
}

const HOW_TO_GET_ONE: &str = "To get one: `pip install nvidia-cuda-nvrtc`, or install the CUDA toolkit, or set \
     ATTN_NVRTC to libnvrtc or its folder (no folder of a checkout is searched); or embed kernels ahead of time with \
     ATTN_CUDA_ARCHS";

impl NoCompiler {
    pub(crate) fn one(tried: impl Into<String>) -> Self {
        NoCompiler { tried: vec![tried.into()] }
    }
    pub(crate) fn unknown(name: &str) -> Self {
        Self::one(format!("ATTN_COMPILER=`{name}` is not known; there are: nvrtc, nvcc"))
    }
    #[cfg(not(feature = "jit"))]
    pub(crate) fn without_jit() -> Self {
        Self::one("NVRTC is not built in (feature `jit` is off)")
    }
    pub(crate) fn and(mut self, other: NoCompiler) -> Self {
        self.tried.extend(other.tried);
        self
    }
}

/// A translation unit that did not compile.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum CompileError {
    /// The compiler found errors. Lines are those of the templates and of the variant's Rust source.
    #[error("{name} does not compile for {arch} with {compiler}:\n{}{}", .log.trim_end(), dumped(.source_file))]
    Rejected {
        name: String,
        arch: Arch,
        compiler: String,
        log: String,
        /// A copy of the translation unit, for inspection.
        source_file: Option<PathBuf>,
    },
    /// The compiler does not know the architecture.
    #[error(
        "{compiler} does not know {arch}; it knows: {}. Use a newer one, or set ATTN_NVRTC to it",
        .known.join(", ")
    )]
    UnknownToCompiler { arch: Arch, compiler: String, known: Vec<String> },
    /// The compiler itself failed.
    #[error("{compiler} failed on {name}: {reason}")]
    Failed { name: String, compiler: String, reason: String },
}

fn dumped(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!("\nthe whole source is in {}", path.display())).unwrap_or_default()
}

impl CompileError {
    /// A rejection, with a copy of the source in the temporary folder.
    pub(crate) fn rejected(name: &str, source: &str, arch: Arch, compiler: String, log: String) -> Self {
        CompileError::Rejected { name: name.to_owned(), arch, compiler, log, source_file: dump(source) }
    }
}

/// Writes a copy of the source; `None` if that fails.
fn dump(source: &str) -> Option<PathBuf> {
    let dir = env::temp_dir().join(format!("attn-rejected-{}", std::process::id()));
    fs::create_dir_all(&dir).ok()?;
    let path = dir.join(format!("{}.cu", &sha256_hex(source.as_bytes())[..16]));
    // other users may write to the temporary folder: never follow a link
    match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => file.write_all(source.as_bytes()).ok()?,
        Err(_) if fs::read(&path).is_ok_and(|there| there == source.as_bytes()) => {}
        Err(_) => return None,
    }
    Some(path)
}
