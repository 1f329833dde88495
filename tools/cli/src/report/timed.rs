//! A timed run of a case.

use attn::ComputeType;
use attn_testing::{BenchResult, Case, RunMode};

/// A timed run of a case in one run mode.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    pub(super) case: String,
    pub(super) mode: RunMode,
    /// The kernel and the device.
    pub(super) ran: String,
    pub(super) ms: f64,
    /// As in the table of `attn bench`: bytes of K and V, operations of attended pairs.
    pub(super) gbps: f64,
    pub(super) tflops: f64,
    /// Whether the case asks for compute type e4m3.
    pub(super) e4m3: bool,
}

impl Timed {
    pub(super) fn new(case: &Case, mode: RunMode, result: &BenchResult) -> Self {
        Timed {
            case: case.title().to_owned(),
            mode,
            ran: result.ran.clone(),
            ms: result.ms,
            gbps: result.gbps,
            tflops: result.tflops,
            e4m3: case.compute_type == ComputeType::E4m3,
        }
    }

    /// The case, and the run mode if it is another one than the case's own.
    pub(super) fn title(&self) -> String {
        title(&self.case, self.mode)
    }

    pub(super) fn us(&self) -> f64 {
        self.ms * 1e3
    }

    /// Floating-point operations a byte of K and V; none without bytes or operations.
    pub(super) fn intensity(&self) -> Option<f64> {
        let intensity = self.tflops * 1e3 / self.gbps;
        (intensity.is_finite() && intensity > 0.0).then_some(intensity)
    }
}

/// The name of a case in a run mode.
pub(crate) fn title(case: &str, mode: RunMode) -> String {
    if mode == RunMode::AsIs { case.to_owned() } else { format!("{case}: {mode}") }
}
