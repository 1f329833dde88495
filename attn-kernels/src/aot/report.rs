//! What came of building ahead of time.

use attn_core::{expr::ExprError, registry::RegistryError};

use crate::{cell::CellError, compile::UnknownArch, jit::JitError, splice::SpliceError};

/// What was embedded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AotReport {
    /// Cubins embedded.
    pub cubins: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Of them, those that had to be compiled; the others were in the cache.
    pub compiled: usize,
    /// Why nothing, or not everything, was embedded.
    pub notes: Vec<String>,
}

/// What is wrong with what was asked to be embedded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AotError {
    /// `ATTN_CUDA_ARCHS`.
    #[error("ATTN_CUDA_ARCHS: {0}; separate several by `;`, or write `native`")]
    Arch(#[from] UnknownArch),
    /// `ATTN_AOT_HEAD_DIMS` or `ATTN_AOT_DTYPES`.
    #[error("{name}: `{value}` is none of the {allowed}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// The word in it.
        value: String,
        /// What may stand there.
        allowed: &'static str,
    },
    /// An expression does not parse.
    #[error("expression `{expr}`: {source}")]
    Expr {
        /// The expression.
        expr: String,
        /// What is wrong.
        source: Box<ExprError>,
    },
    /// Two variants of one name.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A head dimension or dtype that no kernel has.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// A hook that no kernel has.
    #[error("expression `{expr}`: {source}")]
    Splice {
        /// The expression.
        expr: String,
        /// What is wrong.
        source: SpliceError,
    },
    /// A kernel does not compile.
    #[error(transparent)]
    Compile(#[from] JitError),
    /// The output folder cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
}
