//! The kernels of cases, so that those of many cases are compiled at once, before the cases run one after the other.

use attn::{AttentionOptions, Engine, Preparation, Workload};
use attn_core::batch::{BatchCapacity, indptr};

use crate::keys::Keys;
use crate::{Case, RunMode, TestError, case_variant};

/// Adds the kernels that a case runs in a mode: those that planning selects on the engine's device. Makes no tensors of
/// queries, keys or values. Adds nothing on the CPU. `device_plans`: also those that plan on the device.
///
/// # Errors
///
/// The case cannot be planned, or it does not have this run mode.
pub fn add_kernels(
    case: &Case,
    mode: RunMode,
    engine: &Engine,
    to: &Preparation,
    device_plans: bool,
) -> Result<(), TestError> {
    mode.cases(case)?.iter().try_for_each(|case| add(case, engine, to, device_plans))
}

fn add(case: &Case, engine: &Engine, to: &Preparation, device_plans: bool) -> Result<(), TestError> {
    let (variant, dtypes, options) = (case_variant(case)?, case.dtypes()?, case.attention_options()?);
    let attention = engine.attention_with(&variant, case.heads(), dtypes, options)?;
    let qo_indptr = indptr(&case.qo_lens.to_vec())?;
    let keys = Keys::new(case, &qo_indptr)?;
    let levels = keys.levels();
    let batch = keys.batch(&qo_indptr, &levels);
    to.add(&Workload::Batch { attention: &attention, batch: &batch })?;
    if case.graph {
        // a replay runs the kernel of the plan, with a capacity
        let layout = batch.validate()?;
        let options = AttentionOptions { kernel: attention.kernel_kind(&layout), ..options };
        let attention = engine.attention_with(&variant, case.heads(), dtypes, options)?;
        to.add(&Workload::Capacity { attention: &attention, capacity: BatchCapacity::of(&layout) })?;
        if device_plans {
            to.add(&Workload::DeviceUpdates { attention: &attention })?;
        }
    }
    Ok(())
}
