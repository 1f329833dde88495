//! The one error of the library.

use attn_core::{
    ErrorKind, ExprError, RegistryError,
    batch::BatchError,
    cpu::CpuError,
    dtype::DtypesError,
    expr::{ContentError, LayerError},
    lang::{BindError, ComposeError, ParamError},
    ops::OpError,
    parallel::ParallelError,
    plan::PlanError,
    spec::{ComputeTypeError, HeadsError, SkipSoftmaxError},
    tensor::TensorError,
};

/// All errors of the library, by their source. Each message names the request, the allowed values and the remedy.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum Error {
    /// An invalid expression.
    #[error(transparent)]
    Expr(#[from] ExprError),
    /// Two variants of one name.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Parts that do not compose.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// An invalid parameter, given by name.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A parameter that does not fit the heads or lengths.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Invalid heads.
    #[error(transparent)]
    Heads(#[from] HeadsError),
    /// A compute type that no kernel has.
    #[error(transparent)]
    ComputeType(#[from] ComputeTypeError),
    /// KV tiles that cannot be left out.
    #[error(transparent)]
    SkipSoftmax(#[from] SkipSoftmaxError),
    /// Element types that are not supported.
    #[error(transparent)]
    Dtypes(#[from] DtypesError),
    /// An invalid batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A parameter tensor whose content cannot be replaced.
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
    /// An invalid argument of an op.
    #[error(transparent)]
    Op(#[from] OpError),
    /// Parts whose CUDA cannot be in one translation unit.
    #[error(transparent)]
    Source(#[from] attn_kernels::splice::VariantError),
    /// The CPU backend.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// An attention that does not run where it is asked for.
    #[error(transparent)]
    Unsupported(attn_kernels::support::Unsupported),
    /// The CUDA backend.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Cuda(Box<attn_kernels::cuda::CudaError>),
    /// Ranks of a group.
    #[error(transparent)]
    Parallel(#[from] ParallelError),
    /// Measured costs that cannot be read.
    #[error(transparent)]
    Costs(#[from] attn_kernels::cost::CostsError),
    /// A build without the CUDA backend.
    #[error("this build has no CUDA backend: turn on the feature `cuda` of attn-rs, or use `Engine::cpu()`")]
    NoCuda,
    /// An object of one backend, passed to another.
    #[error("the {what} is of {got}, the engine or attention is on {want}; take everything from one engine")]
    Backend { what: &'static str, got: &'static str, want: &'static str },
    /// Host memory that is not to be had.
    #[error("{bytes} bytes of host memory are not to be had; allocate fewer elements")]
    OutOfMemory { bytes: usize },
    /// A buffer, read as another element type.
    #[error("the buffer holds {have}, not {want}")]
    Elements { have: String, want: String },
}

impl Error {
    /// What the error is about.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Expr(_) | Error::Registry(_) | Error::Compose(_) | Error::Param(_) | Error::Bind(_) => {
                ErrorKind::InvalidVariant
            }
            Error::Batch(_) | Error::Plan(_) => ErrorKind::InvalidBatch,
            Error::Tensor(_) | Error::Content(_) | Error::Op(_) | Error::Elements { .. } => ErrorKind::InvalidTensor,
            Error::Heads(_) | Error::Dtypes(_) | Error::Layer(_) | Error::Source(_) => ErrorKind::Unsupported,
            Error::ComputeType(_) | Error::SkipSoftmax(_) | Error::Unsupported(_) => ErrorKind::Unsupported,
            Error::Backend { .. } | Error::Costs(_) | Error::OutOfMemory { .. } => ErrorKind::InvalidArgument,
            Error::Cpu(CpuError::Tensor(_)) => ErrorKind::InvalidTensor,
            Error::Cpu(CpuError::Text { .. } | CpuError::Sink { .. }) => ErrorKind::Unsupported,
            Error::Cpu(_) => ErrorKind::Internal,
            Error::Parallel(error) => error.kind(),
            Error::NoCuda => ErrorKind::NoDevice,
            #[cfg(feature = "cuda")]
            Error::Cuda(error) => error.kind(),
        }
    }
}

impl From<attn_kernels::support::Unsupported> for Error {
    fn from(error: attn_kernels::support::Unsupported) -> Self {
        use attn_kernels::support::Unsupported;
        match error {
            Unsupported::Heads(e) => Error::Heads(e),
            Unsupported::ComputeType(e) => Error::ComputeType(e),
            Unsupported::SkipSoftmax(e) => Error::SkipSoftmax(e),
            Unsupported::Dtypes(e) => Error::Dtypes(e),
            Unsupported::Bind(e) => Error::Bind(e),
            Unsupported::Cpu(e) => Error::Cpu(e),
            Unsupported::Plan(e) => Error::Plan(e),
            other => Error::Unsupported(other),
        }
    }
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
            CudaError::Content(e) => Error::Content(e),
            CudaError::Unsupported(e) => e.into(),
            CudaError::Costs(e) => Error::Costs(e),
            CudaError::Parallel(e) => Error::Parallel(e),
            other => Error::Cuda(Box::new(other)),
        }
    }
}

/// The message, which a `main` that returns the error prints.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;

    #[test]
    fn what_both_backends_refuse_is_one_error() {
        use attn_kernels::cuda::CudaError;
        let content = ContentError::NoTensor { name: "pages".to_owned(), why: "is not there" };
        assert!(matches!(Error::from(CudaError::from(content)), Error::Content(_)));
        let batch = BatchError::Capacity { what: "requests", count: 2, capacity: 1 };
        assert!(matches!(Error::from(CudaError::from(batch)), Error::Batch(_)));
        assert!(matches!(Error::from(CudaError::StalePlan), Error::Cuda(_)));
    }
}
