//! What can go wrong on a CUDA device.

use attn_core::{
    batch::BatchError,
    expr::ContentError,
    lang::BindError,
    ops::OpError,
    plan::{LayerError, PlanError},
    spec::HeadsError,
    tensor::TensorError,
};
use cudarc::driver::result::DriverError;

use super::Family;
use crate::{cell::CellError, jit::JitError, splice::SpliceError};

/// What can go wrong on a CUDA device. Nothing has been launched when a run returns one, except after `Driver`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// No driver, or none that works.
    #[error("no CUDA driver: {reason}. Install NVIDIA's driver (CUDA 12 or later), or use `Engine::cpu()`")]
    NoDriver {
        /// What was found instead.
        reason: String,
    },
    /// A device that is not there.
    #[error("there is no CUDA device {ordinal}; this machine has {count}")]
    NoDevice {
        /// What was asked.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// A device older than the templates.
    #[error("{name} has compute capability {}.{}; kernels need 8.0 or later. Use `Engine::cpu()`", .capability.0, .capability.1)]
    TooOld {
        /// The device.
        name: String,
        /// What it has.
        capability: (u32, u32),
    },
    /// A call of the driver failed.
    #[error("the CUDA driver could not {what}: {code}")]
    Driver {
        /// What was being done.
        what: String,
        /// The driver's code and sentence.
        code: String,
    },
    /// Memory ran out.
    #[error("{bytes} bytes of device memory are not to be had ({free} are free)")]
    OutOfMemory {
        /// What was asked.
        bytes: usize,
        /// What there was.
        free: usize,
    },
    /// A plan that does not fit a workspace of a fixed size.
    #[error(
        "the plan takes {need} bytes of workspace, and this one has {have} and is of a fixed size; `workspace_size` says how many a plan takes"
    )]
    WorkspaceSize {
        /// What the plan takes.
        need: usize,
        /// What there is.
        have: usize,
    },
    /// Memory for a workspace that does not begin where one may.
    #[error(
        "a workspace begins at a multiple of {} bytes; this one would begin at {ptr:#x}",
        super::Workspace::ALIGNMENT
    )]
    WorkspaceAddress {
        /// Where it would begin.
        ptr: u64,
    },
    /// More shared memory than a CTA of the device may use.
    #[error("`{kernel}` needs {need} bytes of shared memory; a CTA of this device has {have}")]
    SharedMemory {
        /// The kernel.
        kernel: String,
        /// What it needs.
        need: u32,
        /// What there is.
        have: u32,
    },
    /// An object of another device.
    #[error("the {what} belongs to CUDA device {got}, the attention to device {want}")]
    OtherDevice {
        /// The object.
        what: &'static str,
        /// Its device.
        got: u32,
        /// The attention's.
        want: u32,
    },
    /// A tensor that vectorised loads cannot read.
    #[error("{tensor}: {what} is {value} bytes, which is not a multiple of 16; kernels load 16 bytes at a time")]
    Alignment {
        /// The tensor.
        tensor: &'static str,
        /// Its address, or one of its strides.
        what: &'static str,
        /// In bytes.
        value: u64,
    },
    /// A tensor whose tokens lie too far apart.
    #[error("{tensor}: {what} is {value} bytes; at most {} are supported", i32::MAX)]
    Stride {
        /// The tensor.
        tensor: &'static str,
        /// Which stride.
        what: &'static str,
        /// In bytes.
        value: u64,
    },
    /// The workspace was planned into again.
    #[error(
        "this plan is stale: its workspace holds a later plan. Plan again, or give each plan that stays a workspace of its own"
    )]
    StalePlan,
    /// A plan that was made in the order of another stream.
    #[error(
        "this plan was made by `plan_on`, or updated, in the order of another stream; run it there, or make it with `plan`"
    )]
    OtherStream,
    /// Tensors of a variant that are others for another batch.
    #[error(
        "the variant has tensors that depend on the lengths of the batch, and they are others for this one; launches that were captured would still read those before. Plan again, and capture again"
    )]
    CapturedTensors,
    /// A captured tensor whose content is not replaced.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A plan whose batch only the host can change.
    #[error("a plan of {what} is not made on the device; use `Plan::update`, which reads the lengths on the host")]
    NotOnDevice {
        /// What there is no such kernel for.
        what: &'static str,
    },
    /// Lengths that the device cannot read.
    #[error("{array} is in host memory; the device reads it when it plans. Copy it there, or use `Plan::update`")]
    HostInts {
        /// The array.
        array: &'static str,
    },
    /// What copies from the host, under a capture.
    #[error("cannot {what} on a stream that is being captured; do it before the capture, and between replays")]
    Capturing {
        /// What was to be done.
        what: &'static str,
    },
    /// A request whose kernel family is not that of the plan, where requests may not depend on each other.
    #[error(
        "request {request} is for the {asks} kernel, and this plan runs {runs}; with `batch_invariant`, plan such requests apart, or choose one `kernel` for all"
    )]
    OtherKernel {
        /// The request.
        request: usize,
        /// What it runs when it is alone.
        asks: Family,
        /// What the plan runs: that of the request that has most queries, or of the capacity.
        runs: Family,
    },
    /// A layer that cannot share a plan.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// A head count that is none.
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
    /// Numbers that lie across the words of memory.
    #[error("`{array}` is at {ptr:#x}, which is not a multiple of {size}; its numbers are read as wholes")]
    Misaligned {
        /// The array.
        array: &'static str,
        /// Its address.
        ptr: u64,
        /// Bytes of a number.
        size: usize,
    },
    /// What an op cannot be given.
    #[error(transparent)]
    Op(#[from] OpError),
    /// No template for these heads or types.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// A hook that the kernel does not run.
    #[error(transparent)]
    Splice(#[from] SpliceError),
    /// No cubin.
    #[error(transparent)]
    Jit(#[from] JitError),
}

impl CudaError {
    pub(crate) fn driver(what: impl Into<String>, error: DriverError) -> Self {
        let name =
            error.error_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_else(|_| format!("{:?}", error.0));
        let text = error.error_string().map(|t| t.to_string_lossy().into_owned()).unwrap_or_default();
        CudaError::Driver { what: what.into(), code: format!("{name} ({text})") }
    }
}
