//! The result of a build ahead of time.

use attn_core::{dtype::DtypesError, expr::ExprError, registry::RegistryError};

use crate::{compile::UnknownArch, jit::JitError, kernel_traits::KernelTraitsError, splice::SpliceError};

/// The embedded cubins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AotReport {
    /// The number of cubins.
    pub cubins: usize,
    /// Their total size in bytes.
    pub bytes: usize,
    /// Cubins that were compiled; the others came from the cache.
    pub compiled: usize,
    /// Reasons why cubins are missing.
    pub notes: Vec<String>,
}

/// An error in the request, or in a kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum AotError {
    /// An unknown architecture in `ATTN_CUDA_ARCHS`.
    #[error("ATTN_CUDA_ARCHS: {0}; separate several by `;`, or write `native`")]
    Arch(#[from] UnknownArch),
    /// A wrong value in `ATTN_AOT_HEAD_DIMS`, `ATTN_AOT_DTYPES`, `ATTN_AOT_KV_DTYPES` or `ATTN_AOT_KV_FORMATS`.
    #[error("{name}: `{value}` is none of the {allowed}")]
    Variable { name: &'static str, value: String, allowed: &'static str },
    /// An expression does not parse.
    #[error("expression `{expr}`: {source}")]
    Expr { expr: String, source: Box<ExprError> },
    /// Two variants of one name.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Element types and KV formats that do not go together.
    #[error(transparent)]
    Dtypes(#[from] DtypesError),
    /// A head dimension or element type without a kernel.
    #[error(transparent)]
    KernelTraits(#[from] KernelTraitsError),
    /// A variant that the kernel does not support.
    #[error("expression `{expr}`: {source}")]
    Splice { expr: String, source: SpliceError },
    /// A kernel does not compile.
    #[error(transparent)]
    Compile(#[from] JitError),
    /// The output folder cannot be written.
    #[error("cannot write {path}: {source}")]
    Write { path: std::path::PathBuf, source: std::io::Error },
}
