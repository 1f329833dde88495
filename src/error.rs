//! The one error of the library.

use attn_core::{
    ExprError, RegistryError,
    batch::BatchError,
    cpu::CpuError,
    dtype::DtypesError,
    expr::ContentError,
    lang::{BindError, ComposeError, ParamError},
    ops::OpError,
    plan::{LayerError, PlanError},
    spec::HeadsError,
    tensor::TensorError,
};

/// Everything that can go wrong, by where it is found. Each says what was asked, what is allowed, and the way out.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An expression that names no variant.
    #[error(transparent)]
    Expr(#[from] ExprError),
    /// Two variants of one name.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Parts that do not go together.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// A parameter given by name.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A parameter that does not fit the heads or lengths.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Head counts that are none.
    #[error(transparent)]
    Heads(#[from] HeadsError),
    /// Element types that no attention has.
    #[error(transparent)]
    Dtypes(#[from] DtypesError),
    /// A batch that is not sound.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A captured tensor whose content is not replaced.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A batch too large to plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A layer that cannot share a plan.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// A tensor that does not fit.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// What an op is given that does not fit.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The CPU backend.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// The CUDA backend.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(Box<attn_kernels::cuda::CudaError>),
    /// A build without the CUDA backend.
    #[error("this build has no CUDA backend: turn on the feature `cuda` of attn-rs, or use `Engine::cpu()`")]
    NoCuda,
    /// An object of one backend given to the other.
    #[error("the {what} is of {got}, the engine or attention is on {want}; take everything from one engine")]
    Backend {
        /// The object.
        what: &'static str,
        /// Where it is.
        got: &'static str,
        /// Where it must be.
        want: &'static str,
    },
    /// A buffer read as elements that it does not hold.
    #[error("the buffer holds {have}, not {want}")]
    Elements {
        /// What it holds.
        have: String,
        /// What was asked.
        want: String,
    },
}

#[cfg(feature = "cuda")]
impl From<attn_kernels::cuda::CudaError> for Error {
    fn from(error: attn_kernels::cuda::CudaError) -> Self {
        use attn_kernels::cuda::CudaError;
        match error {
            CudaError::Heads(e) => Error::Heads(e),
            CudaError::Batch(e) => Error::Batch(e),
            CudaError::Tensor(e) => Error::Tensor(e),
            CudaError::Bind(e) => Error::Bind(e),
            CudaError::Plan(e) => Error::Plan(e),
            CudaError::Layer(e) => Error::Layer(e),
            CudaError::Op(e) => Error::Op(e),
            other => Error::Cuda(Box::new(other)),
        }
    }
}

/// The message: it is what a `main` that returns the error prints.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
