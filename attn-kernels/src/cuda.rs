//! The CUDA backend: owners of driver objects, and attention on a device.
//!
//! [`driver`] finds the driver, and [`Device`] holds a context. [`CudaStream`], [`CudaBuffer`], [`Event`] and
//! [`CudaGraph`] own driver objects. [`CudaAttention`] binds a variant, [`CudaPlan`] holds the work list of a batch in
//! a [`CudaWorkspace`], and [`CudaPlan::run`] only launches. The facade has a type over each of these that runs on the
//! CPU too; here names begin with `Cuda`, so that no reader takes one for the other.

mod address;
mod alignment;
mod args;
mod attention;
mod batch_checker;
mod bound;
mod buffer;
mod capacity;
mod capture;
mod capture_lock;
mod captured;
mod cascade;
mod device;
mod device_batch;
mod device_costs;
mod device_update;
pub mod driver;
mod error;
mod event;
mod function;
mod graph;
mod host_buffer;
mod host_copy;
mod kernel;
mod kernel_cache;
mod kernel_params;
mod kernels;
mod launch_kernel;
mod layers;
mod mixed_launch;
mod module;
mod op_module;
pub mod ops;
mod order;
mod output_buffers;
mod parameter_tensors;
mod pinned_buffer;
mod plan;
mod planner;
mod prepare;
mod release;
mod run;
mod sections;
mod sm90_launch;
mod staging;
mod stream;
mod stream_state;
mod tensor_maps;
mod update;
mod use_tracker;
mod uses;
mod workspace;

pub use attention::CudaAttention;
pub use batch_checker::CudaBatchChecker;
pub use buffer::CudaBuffer;
pub use device::Device;
pub use error::CudaError;
pub use event::Event;
pub use graph::CudaGraph;
pub use host_buffer::CudaHostBuffer;
pub use kernel::Kernel;
pub use module::{Arg, CudaModule, Grid};
pub use plan::CudaPlan;
pub use prepare::CudaPreparation;
pub use staging::CudaStaging;
pub use stream::CudaStream;
pub use workspace::CudaWorkspace;

pub use crate::select::SelectedKernel;

// All types may be sent to and shared between threads. Methods that change an object take `&mut`.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<(Device, CudaStream, Event, CudaGraph, CudaBuffer, Kernel, CudaWorkspace)>();
    shared::<(CudaAttention, CudaBatchChecker, CudaPlan, CudaError)>();
    shared::<(CudaHostBuffer, CudaStaging)>();
};
