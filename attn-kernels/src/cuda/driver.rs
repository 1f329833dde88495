//! Owners of what the driver makes, and the order of work: devices, streams, events, graphs, loaded modules.

pub(super) mod address;
mod capture;
pub(super) mod capture_lock;
pub(super) mod captured;
pub(super) mod device;
mod device_costs;
pub(super) mod event;
pub(super) mod function;
pub(super) mod graph;
pub(super) mod launch_kernel;
mod library;
pub(super) mod op_module;
pub(super) mod order;
pub(super) mod release;
pub(super) mod stream;
pub(super) mod stream_state;
pub(super) mod use_tracker;
pub(super) mod uses;

pub use address::is_device_memory;
pub use library::{device_count, version};
