//! What can fail.

/// An error of the engine or of the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of attention, sampling or memory.
    #[error(transparent)]
    Attn(#[from] attn::Error),
    /// An error of pages, prefixes or sequences.
    #[error(transparent)]
    Cache(#[from] attn_cache::CacheError),
    /// No cuBLASLt.
    #[error(
        "libcublasLt is not found: install the CUDA toolkit, or `pip install nvidia-cublas`, and add the folder of the \
         library to LD_LIBRARY_PATH; or run on the CPU"
    )]
    NoCublas,
    /// A call of cuBLASLt failed.
    #[error("cuBLASLt could not {what}: {status}")]
    Cublas {
        /// The operation.
        what: &'static str,
        /// Its status.
        status: String,
    },
    /// Rows that the element-wise kernels do not support.
    #[error("rows of {width} elements are not supported: the kernels take multiples of {multiple} up to {most}")]
    Width {
        /// Elements of a row.
        width: usize,
        /// The most.
        most: usize,
        /// What it has to be a multiple of.
        multiple: usize,
    },
    /// No token can be drawn.
    #[error("row {row} of the step has no token to draw: its mask allows none, or its logits are NaN")]
    NoToken {
        /// The row.
        row: usize,
    },
}
