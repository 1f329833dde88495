//! What can go wrong between source and cubin.

use std::{env, fs, io::Write as _, path::PathBuf};

use super::Arch;

/// No compiler of CUDA was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no compiler of CUDA found: {}. {}", .tried.join("; "), HOW_TO_GET_ONE)]
pub struct NoCompiler {
    /// What was looked at, and what was wrong with it.
    pub tried: Vec<String>,
}

const HOW_TO_GET_ONE: &str = "To get one: `pip install nvidia-cuda-nvrtc`, or install the CUDA toolkit, or set ATTN_NVRTC to \
     libnvrtc (or its folder); or embed kernels ahead of time with ATTN_CUDA_ARCHS";

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
pub enum CompileError {
    /// The compiler found errors. Lines are those of the templates and of the variant's Rust source.
    #[error("{name} does not compile for {arch} with {compiler}:\n{}{}", .log.trim_end(), dumped(.source_file))]
    Rejected {
        /// What was compiled.
        name: String,
        /// For what.
        arch: Arch,
        /// By what.
        compiler: String,
        /// What the compiler said.
        log: String,
        /// Where the whole translation unit was written to, for reading.
        source_file: Option<PathBuf>,
    },
    /// The compiler does not know the architecture.
    #[error("{compiler} does not know {arch}; it knows: {}. Use a newer one, or set ATTN_NVRTC to it", .known.join(", "))]
    UnknownToCompiler {
        /// The architecture.
        arch: Arch,
        /// The compiler.
        compiler: String,
        /// What it knows.
        known: Vec<String>,
    },
    /// The compiler itself failed.
    #[error("{compiler} failed on {name}: {reason}")]
    Failed {
        /// What was compiled.
        name: String,
        /// By what.
        compiler: String,
        /// What happened.
        reason: String,
    },
}

fn dumped(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!("\nthe whole source is in {}", path.display())).unwrap_or_default()
}

impl CompileError {
    /// A rejection, with the source dumped into the temporary folder.
    pub(crate) fn rejected(name: &str, source: &str, arch: Arch, compiler: String, log: String) -> Self {
        CompileError::Rejected { name: name.to_owned(), arch, compiler, log, source_file: dump(source) }
    }
}

/// Writes a source for reading; a failure to do so is no failure.
fn dump(source: &str) -> Option<PathBuf> {
    let dir = env::temp_dir().join(format!("attn-rejected-{}", std::process::id()));
    fs::create_dir_all(&dir).ok()?;
    let path = dir.join(format!("{}.cu", &crate::cache::sha256_hex(source.as_bytes())[..16]));
    // the folder is open to others: never write through a link of theirs
    match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => file.write_all(source.as_bytes()).ok()?,
        Err(_) if fs::read(&path).is_ok_and(|there| there == source.as_bytes()) => {}
        Err(_) => return None,
    }
    Some(path)
}
