//! How long a case takes.

use serde::Serialize;

use crate::Engine;

use super::inputs::Inputs;
use super::setup::Setup;
use super::{Case, TestError, attended, case_variant};

/// What is known of a case that is ready to be timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Info {
    /// What runs: kernel family and device.
    pub ran: String,
    /// Median microseconds of planning, on the host.
    pub plan_us: f64,
    /// How long the kernels took to compile, when they were made, in milliseconds.
    pub compile_ms: Option<f64>,
    /// Where the cubin came from.
    pub cubin: Option<String>,
    /// Registers of a thread of the main kernel.
    pub regs: Option<u32>,
    /// Bytes that the main kernel spills.
    pub spill_bytes: Option<u32>,
    /// Shared memory of a CTA of the main kernel, in bytes.
    pub smem: Option<u32>,
}

/// How long a case takes, and what it moves and computes in that time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BenchResult {
    /// Median milliseconds of a run. On a GPU with a cold L2 (256 MB are overwritten before each run), between two
    /// events, of a graph replay where the case asks for one; on the CPU wall time, with warm caches.
    pub ms: f64,
    /// Bytes of K and V, each counted once whatever a mask leaves out, in GB/s.
    pub gbps: f64,
    /// `4 * pairs * head_dim` floating-point operations over attended (query, key, head) pairs alone, in TFLOP/s.
    pub tflops: f64,
    /// The rest.
    #[serde(flatten)]
    pub info: Info,
}

impl std::ops::Deref for BenchResult {
    type Target = Info;
    fn deref(&self) -> &Info {
        &self.info
    }
}

/// A case that is ready to be timed, any number of times.
pub struct Prepared {
    setup: Setup,
    info: Info,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Times a case: `reps` runs, of which the median counts, after three that do not.
///
/// # Errors
///
/// The case cannot be run.
pub fn bench(case: &Case, engine: &Engine, reps: usize) -> Result<BenchResult, TestError> {
    let mut prepared = Prepared::new(case, engine)?;
    let ms = prepared.time(reps, 3)?;
    let variant = case_variant(case)?;
    let qo = crate::batch::indptr(&case.qo_lens.to_vec())?;
    let kv = crate::batch::indptr(&case.all_kv_lens())?;
    let layout = crate::Batch::ragged(&qo, &kv).validate()?;
    let flops = 4.0 * attended(&variant, &layout, case.heads()) as f64 * f64::from(case.head_dim);
    let kv_row = case.kv_heads as usize * case.head_dim as usize * case.dtypes()?.kv.size();
    let bytes = 2.0 * case.kv_memory_tokens() as f64 * kv_row as f64;
    Ok(BenchResult { ms, gbps: bytes / ms / 1e6, tflops: flops / ms / 1e9, info: prepared.info })
}

impl Prepared {
    /// Compiles, plans, and puts the tensors in place.
    ///
    /// # Errors
    ///
    /// The case cannot be run.
    pub fn new(case: &Case, engine: &Engine) -> Result<Self, TestError> {
        let variant = case_variant(case)?;
        // refused before anything large is made
        case.dtypes()?;
        let inputs = Inputs::new(case, true)?;
        let mut setup = Setup::new(case, &variant, &inputs, engine, 11)?;
        setup.launch()?;
        setup.stream.synchronize()?;
        if case.graph {
            setup.capture()?;
        }
        let info = Info { ran: setup.ran(), plan_us: setup.plan_us, ..setup.kernel_info() };
        Ok(Prepared { setup, info })
    }

    /// What is known of it.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Median milliseconds of `reps` runs, after `warm` runs that do not count.
    ///
    /// # Errors
    ///
    /// A run failed.
    pub fn time(&mut self, reps: usize, warm: usize) -> Result<f64, TestError> {
        self.setup.time(warm, reps)
    }
}
