//! Facts about a prepared case.

use serde::Serialize;

/// Facts about a prepared case.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Info {
    /// The kernel and the device.
    pub ran: String,
    /// Median microseconds of planning on the host, summed over launches.
    pub plan_us: f64,
    /// The key of the main kernel's source, as the cache of cubins has it; none on the CPU, or if several kernels are
    /// launched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The key of what a GPU executes of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Compile time of the kernels when they were built, in milliseconds.
    pub compile_ms: Option<f64>,
    /// The origin of the cubin.
    pub cubin: Option<String>,
    /// Registers a thread of the main kernel; none if several kernels are launched.
    pub regs: Option<u32>,
    /// Bytes that the main kernel spills a thread.
    pub spill_bytes: Option<u32>,
    /// Shared memory of a CTA of the main kernel, in bytes.
    pub smem: Option<u32>,
}
