//! The CUDA backend: the driver's objects, and attention on them.
//!
//! [`driver`] tells whether there is a driver, [`Device`] holds its context; [`Stream`], [`DeviceBuffer`], [`Event`] and
//! [`Graph`] are thin owners. [`Attention`] binds a variant, [`Plan`] puts a batch into a [`Workspace`], and
//! [`Plan::run`] only launches.

mod args;
mod attention;
mod boxes;
mod buffer;
mod captures;
mod check;
mod content;
mod device;
mod device_plan;
pub mod driver;
mod error;
mod event;
mod function;
mod graph;
mod kernel;
mod layers;
pub mod ops;
mod pinned;
mod plan;
mod room;
mod run;
mod staging;
mod stream;
mod work;
mod workspace;

pub use attention::{Attention, Options};
pub use buffer::DeviceBuffer;
pub use check::BatchChecker;
pub use device::Device;
pub use error::CudaError;
pub use event::Event;
pub use graph::Graph;
pub use kernel::Kernel;
pub use pinned::HostBuffer;
pub use plan::Plan;
pub use stream::Stream;
pub use workspace::Workspace;

pub use crate::family::Family;

// What may be moved to, and shared between, threads: everything. Who changes something takes it by `&mut`.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<(Device, Stream, Event, Graph, DeviceBuffer, Kernel, Workspace)>();
    shared::<(Attention, BatchChecker, Plan, CudaError)>();
};
