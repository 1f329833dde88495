//! The CUDA backend: owners of driver objects, and attention on a device.
//!
//! [`driver`] finds the driver, and [`Device`] holds a context. [`Stream`], [`DeviceBuffer`], [`Event`] and [`Graph`]
//! own driver objects. [`Attention`] binds a variant, [`Plan`] holds the work list of a batch in a [`Workspace`], and
//! [`Plan::run`] only launches.

mod alignment;
mod args;
mod attention;
mod batch_checker;
mod bound;
mod buffer;
mod capacity;
mod capture;
mod capture_lock;
mod cascade;
mod device;
mod device_batch;
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
mod lengths;
mod mixed_launch;
mod op_module;
pub mod ops;
mod order;
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

pub use attention::Attention;
pub use batch_checker::BatchChecker;
pub use buffer::DeviceBuffer;
pub use device::Device;
pub use error::CudaError;
pub use event::Event;
pub use graph::Graph;
pub use host_buffer::HostBuffer;
pub use kernel::Kernel;
pub use plan::Plan;
pub use prepare::Preparation;
pub use stream::Stream;
pub use workspace::Workspace;

pub use crate::select::SelectedKernel;

// All types may be sent to and shared between threads. Methods that change an object take `&mut`.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<(Device, Stream, Event, Graph, DeviceBuffer, Kernel, Workspace)>();
    shared::<(Attention, BatchChecker, Plan, CudaError)>();
};
