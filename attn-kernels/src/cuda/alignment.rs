//! The alignment of workspaces and of the sections in them.

/// In bytes: what `cudaMalloc` guarantees.
pub(super) const WORKSPACE_ALIGNMENT: u64 = 256;
