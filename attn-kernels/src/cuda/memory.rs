//! Memory of the device and of the host. Uses are ordered by events between streams (`driver/uses.rs`).

// on the device
pub(super) mod buffer;
mod output_buffers;
pub(super) mod workspace;

// pinned, on the host
pub(super) mod mapped_buffer;
mod pinned_memory;

// copies from the host
mod host_copy;
pub(super) mod staging;

// what kernels are passed
pub(super) mod args;
pub(super) mod strided;
