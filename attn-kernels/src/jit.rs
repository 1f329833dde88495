//! From a kernel's source to its cubin: embedded, cached, or compiled now; one source, or many on all cores.

mod all;
#[cfg(feature = "cuda")]
mod device_source;
mod for_device;
mod report;

use std::sync::Arc;

pub(crate) use all::build_all;
pub use all::{Progress, obtain_all, obtain_all_from};
#[cfg(feature = "cuda")]
pub(crate) use device_source::{DeviceSource, obtain_all_for_device};
pub use for_device::{obtain_for_device, source_for_device};
pub use report::PrepareReport;

use crate::cache::{CubinCache, Key, Origin};
use crate::compile::{CompileError, Compiled, Compiler, NoCompiler};
use crate::prebuilt;
use crate::splice::{KernelSource, SpliceError, Unit};

/// A cubin that is ready to be loaded.
#[derive(Clone, Debug)]
pub struct Ready<S = KernelSource> {
    /// The cubin and its compile log.
    pub compiled: Arc<Compiled>,
    /// Where it came from.
    pub origin: Origin,
    /// Its source.
    pub source: S,
}

/// Why there is no cubin for a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum JitError {
    /// The kernel does not support the variant.
    #[error(transparent)]
    Splice(#[from] SpliceError),
    /// The source does not compile.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// No compiler was found.
    #[error("cannot compile `{name}`: {source}")]
    NoCompiler { name: String, source: NoCompiler },
    /// `ATTN_JIT=off`, and the kernel was neither embedded nor cached.
    #[error(
        "`{name}` is not among the {embedded} kernels embedded for this GPU, and ATTN_JIT=off forbids compiling it; \
         embed it (ATTN_CUDA_ARCHS, ATTN_AOT_EXPRS, or `Aot` in a build script), or unset ATTN_JIT"
    )]
    Refused {
        name: String,
        /// How many embedded kernels run on the architecture asked for.
        embedded: usize,
    },
}

impl JitError {
    /// Whether the compiler is older than the GPU. A cubin for an earlier minor version runs there too.
    fn is_of_unknown_arch(&self) -> bool {
        matches!(self, JitError::Compile(CompileError::UnknownToCompiler { .. }))
    }
}

/// Whether `ATTN_JIT` allows compiling.
#[must_use]
pub fn allowed() -> bool {
    crate::switch::is_on("ATTN_JIT")
}

/// The cubin of a source: embedded, from the cache, or compiled.
///
/// # Errors
///
/// [`JitError`] names the cause.
pub fn obtain<S: Unit>(source: S) -> Result<Ready<S>, JitError> {
    obtain_from(CubinCache::global(), source)
}

/// The cubin of a source by a cache of the caller; [`obtain`] takes the default one.
///
/// # Errors
///
/// The errors of [`obtain`].
pub fn obtain_from<S: Unit>(cache: &CubinCache, source: S) -> Result<Ready<S>, JitError> {
    let key = source.key();
    let (compiled, origin) = match embedded(&key) {
        Some(found) => found,
        None => cache.get_or_compile(&key, || compile(&source, allowed()))?,
    };
    Ok(Ready { compiled, origin, source })
}

/// The embedded cubin of a key.
fn embedded(key: &Key) -> Option<(Arc<Compiled>, Origin)> {
    prebuilt::find(key).map(|found| (Arc::new(found.compiled()), Origin::Prebuilt))
}

fn compile(source: &impl Unit, may_compile: bool) -> Result<Compiled, JitError> {
    if !may_compile {
        let arch = source.arch();
        let embedded = prebuilt::embedded().filter(|p| p.arch() == Some(arch)).count();
        return Err(JitError::Refused { name: source.name().to_owned(), embedded });
    }
    let compiler = Compiler::find().map_err(|e| JitError::NoCompiler { name: source.name().to_owned(), source: e })?;
    Ok(compiler.compile(source.name(), source.text(), source.arch())?)
}
