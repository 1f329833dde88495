//! Memory of the device and of the host, in the order of the streams that use it.

pub(super) mod args;
pub(super) mod buffer;
pub(super) mod host_buffer;
mod host_copy;
mod output_buffers;
mod pinned_buffer;
pub(super) mod staging;
pub(super) mod strided;
pub(super) mod workspace;
