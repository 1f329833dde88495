//! The CUDA backend: owners of driver objects, and attention on a device.
//!
//! [`driver`] finds the driver, and [`Device`] holds a context. [`CudaStream`], [`CudaBuffer`], [`Event`] and
//! [`CudaGraph`] own driver objects. [`CudaAttention`] binds a variant, [`CudaPlan`] holds the work list of a batch in
//! a [`CudaWorkspace`], and [`CudaPlan::run`] only launches. The facade has a type over each of these that runs on the
//! CPU too; here names begin with `Cuda`, so that no reader takes one for the other.
//!
//! A folder imports those before it alone: `driver`, `nccl`, `memory`, `ops`, `attention`, `plan`, `run`.

mod alignment;
mod attention;
pub mod driver;
mod error;
mod memory;
mod nccl;
pub mod ops;
mod plan;
mod run;

pub use attention::{CudaAttention, kernel::Kernel, prepare::CudaPreparation};
pub use driver::{device::Device, event::Event, graph::CudaGraph, stream::CudaStream};
pub use error::CudaError;
pub use memory::{buffer::CudaBuffer, mapped_buffer::CudaHostBuffer, staging::CudaStaging, workspace::CudaWorkspace};
pub use nccl::NcclRank;
pub use ops::custom::{Arg, CudaModule, Grid};
pub use plan::{CudaPlan, batch_checker::CudaBatchChecker};

pub use crate::select::SelectedKernel;

// All types may be sent to and shared between threads. Methods that change an object take `&mut`.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<(Device, CudaStream, Event, CudaGraph, CudaBuffer, Kernel, CudaWorkspace)>();
    shared::<(CudaAttention, CudaBatchChecker, CudaPlan, CudaError)>();
    shared::<(CudaHostBuffer, CudaStaging, NcclRank)>();
};
