//! Errors of the CUDA backend.

use attn_core::ErrorKind;
use attn_core::batch::BatchError;
use attn_core::expr::{ContentError, LayerError};
use attn_core::lang::BindError;
use attn_core::ops::OpError;
use attn_core::parallel::ParallelError;
use attn_core::plan::PlanError;
use attn_core::spec::HeadsError;
use attn_core::tensor::TensorError;
use cudarc::driver::result::DriverError;

use super::SelectedKernel;
use crate::cost::CostsError;
use crate::jit::JitError;
use crate::kernel_traits::KernelTraitsError;
use crate::problem::{Unsupported, not_on_device, too_old};
use crate::splice::SpliceError;

/// An error of the CUDA backend. A run that returns an error has launched nothing, except for `Driver`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum CudaError {
    /// No working driver.
    #[error("no CUDA driver: {reason}. Install NVIDIA's driver (CUDA 12 or later), or use `Engine::cpu()`")]
    NoDriver { reason: String },
    /// A device that does not exist.
    #[error("there is no CUDA device {ordinal}; this machine has {count}")]
    NoDevice { ordinal: u32, count: u32 },
    /// A device that is too old for the kernels.
    #[error("{}", too_old(.name, *.capability))]
    TooOld { name: String, capability: (u32, u32) },
    /// Kernels that [`CudaPreparation::run`](super::CudaPreparation::run) could not compile or load. The others are
    /// prepared.
    #[error("{} kernels cannot be prepared:\n{}", .failures.len(), lines(.failures))]
    Unprepared {
        /// The error of each; there is one at least.
        failures: Vec<CudaError>,
    },
    /// A call of the driver failed.
    #[error("the CUDA driver could not {what}: {code}")]
    Driver { what: String, code: String },
    /// Not enough device memory.
    #[error("{bytes} bytes of device memory are not to be had ({free} are free)")]
    OutOfMemory { bytes: usize, free: usize },
    /// A workspace of a fixed size, whose plan another library captured.
    #[error(
        "the workspace is of a fixed size, and a CUDA graph captured the plan in it: plan into another workspace, or \
        release the captured plan first, after the last replay"
    )]
    CapturedWorkspace,
    /// A plan that exceeds a workspace of a fixed size.
    #[error(
        "the plan takes {need} bytes of workspace, and this one has {have} and is of a fixed size; `workspace_size` \
        says how many a plan takes"
    )]
    WorkspaceSize { need: usize, have: usize },
    /// Misaligned memory for a workspace.
    #[error(
        "a workspace begins at a multiple of {} bytes; this one would begin at {ptr:#x}",
        super::alignment::WORKSPACE_ALIGNMENT
    )]
    WorkspaceAddress { ptr: u64 },
    /// More shared memory than a CTA of the device may use.
    #[error("`{kernel}` needs {need} bytes of shared memory; a CTA of this device has {have}")]
    SharedMemory { kernel: String, need: u32, have: u32 },
    /// An object of another device.
    #[error("`{what}` belongs to CUDA device {got}, and this call is on device {want}; use one device for both")]
    OtherDevice { what: &'static str, got: u32, want: u32 },
    /// A tensor that vectorised loads cannot read.
    #[error(
        "{tensor}: {what} is {value} bytes, which is not a multiple of {alignment}; kernels load \
         {alignment} bytes at a time"
    )]
    Alignment { tensor: &'static str, what: &'static str, value: u64, alignment: u64 },
    /// A tensor with too large a stride between tokens.
    #[error("{tensor}: {what} is {value} bytes; at most {} are supported", i32::MAX)]
    Stride { tensor: &'static str, what: &'static str, value: u64 },
    /// A stale plan: its workspace holds a later plan.
    #[error(
        "this plan is stale: its workspace holds a later plan. Plan again, or give each plan that stays a workspace of \
        its own"
    )]
    StalePlan,
    /// The per-thread default stream.
    #[error(
        "the per-thread default stream (handle 2) is another stream on each thread, so nothing could be kept in its \
        order; create a stream, or pass the default stream (null)"
    )]
    PerThreadStream,
    /// Parameter tensors whose content depends on the batch.
    #[error(
        "the variant has tensors that depend on the lengths of the batch, and they are others for this one; launches \
        that were captured would still read those before. Plan again, and capture again"
    )]
    ParameterTensors,
    /// A parameter tensor whose content is not replaced.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A plan that only the host can update.
    #[error("{}", not_on_device(.what))]
    NotOnDevice { what: &'static str },
    /// An array in host memory that the device would have to read.
    #[error("{array} is in host memory; the device reads it when it plans. Copy it there, or use `Plan::update`")]
    HostInts { array: &'static str },
    /// Memory of the host, as an argument of a kernel.
    #[error("argument {index} of the kernel is in host memory; upload it (`Engine::upload`), or pass it by value")]
    HostArgument { index: usize },
    /// An operation that a capture does not allow: of the stream, of another stream by this thread, or of the stream
    /// that used the same memory before.
    #[error(
        "cannot {what} during the capture of this stream, of a stream that used the same memory before, or of any \
         stream by this thread; do it before the capture, and between replays"
    )]
    Capturing { what: &'static str },
    /// Under batch invariance, a request that would run another kernel if it were alone.
    #[error(
        "request {request} is for the {alone} kernel, and this plan runs {runs}; with `fixed_split_size`, plan such \
        requests apart, or choose one `kernel` for all"
    )]
    OtherKernel {
        request: usize,
        alone: SelectedKernel,
        /// The kernel of the plan: that of the request with the most queries, or of the capacity.
        runs: SelectedKernel,
    },
    /// A layer that cannot share a plan.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// Unsupported head counts.
    #[error(transparent)]
    Heads(#[from] HeadsError),
    /// A batch that is not sound.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A tensor that does not fit.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// A parameter that does not fit.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A batch too large to plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An array that is not aligned to its elements.
    #[error("`{array}` is at {ptr:#x}, which is not a multiple of {size}; its numbers are read as wholes")]
    Misaligned { array: &'static str, ptr: u64, size: usize },
    /// A wrong argument of an op.
    #[error(transparent)]
    Op(#[from] OpError),
    /// No kernel for these heads or element types.
    #[error(transparent)]
    KernelTraits(#[from] KernelTraitsError),
    /// A variant that the kernel does not support.
    #[error(transparent)]
    Splice(#[from] SpliceError),
    /// An attention that the CPU does not support.
    #[error(transparent)]
    Unsupported(Unsupported),
    /// No cubin.
    #[error(transparent)]
    Jit(#[from] JitError),
    /// Collectives that failed.
    #[error(transparent)]
    Parallel(#[from] ParallelError),
    /// Costs that `ATTN_COSTS` names, and that cannot be read.
    #[error(transparent)]
    Costs(#[from] CostsError),
}

impl From<Unsupported> for CudaError {
    fn from(error: Unsupported) -> Self {
        match error {
            Unsupported::Heads(error) => error.into(),
            Unsupported::Bind(error) => error.into(),
            Unsupported::Plan(error) => error.into(),
            Unsupported::KernelTraits(error) => error.into(),
            Unsupported::Splice(error) => error.into(),
            Unsupported::NotOnDevice { what } => CudaError::NotOnDevice { what },
            Unsupported::TooOld { name, capability } => CudaError::TooOld { name, capability },
            other => CudaError::Unsupported(other),
        }
    }
}

impl CudaError {
    /// What the error is about, of errors that the facade has no class of its own for.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            CudaError::NoDriver { .. } | CudaError::NoDevice { .. } | CudaError::TooOld { .. } => ErrorKind::NoDevice,
            CudaError::KernelTraits(_) | CudaError::Splice(_) | CudaError::NotOnDevice { .. } => ErrorKind::Unsupported,
            CudaError::Alignment { .. }
            | CudaError::Stride { .. }
            | CudaError::Misaligned { .. }
            | CudaError::OtherDevice { .. } => ErrorKind::InvalidTensor,
            CudaError::PerThreadStream | CudaError::CapturedWorkspace | CudaError::Costs(_) => {
                ErrorKind::InvalidArgument
            }
            _ => ErrorKind::Cuda,
        }
    }

    pub(crate) fn driver(what: impl Into<String>, error: DriverError) -> Self {
        let name =
            error.error_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_else(|_| format!("{:?}", error.0));
        let text = error.error_string().map(|t| t.to_string_lossy().into_owned()).unwrap_or_default();
        CudaError::Driver { what: what.into(), code: format!("{name} ({text})") }
    }
}

fn lines(errors: &[CudaError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
