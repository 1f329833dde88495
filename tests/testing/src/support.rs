//! What [`supports`] says of cases, and what planning says.

use attn::{Engine, Error, Preparation, Spec, Target, Unsupported, Workload, supports};
use attn_core::batch::indptr;

use super::keys::Keys;
use super::{Case, TestError, case_variant};

/// Whether the attention of a case runs its batch on a device that need not be there.
///
/// # Errors
///
/// A case that is not sound by itself.
pub fn case_supports(case: &Case, target: Target) -> Result<Result<(), Unsupported>, TestError> {
    let (variant, dtypes, options) = (case_variant(case)?, case.dtypes()?, case.attention_options()?);
    let qo_indptr = indptr(&case.qo_lens.to_vec())?;
    let keys = Keys::new(case, &qo_indptr)?;
    let layout = keys.batch(&qo_indptr, &keys.levels()).validate()?;
    // a cascade that can be flattened runs in any case
    let cascade = layout.has_levels() && layout.flattened().is_none();
    let spec = Spec::new(&variant, case.heads(), dtypes, target);
    Ok(supports(&Spec { options, paged: layout.pages().is_some(), cascade, ..spec }))
}

/// Whether an engine plans a case. On CUDA it selects the kernels and builds their sources, and compiles none.
///
/// # Errors
///
/// A case that is not sound by itself.
pub fn case_plans(case: &Case, engine: &Engine) -> Result<Result<(), Error>, TestError> {
    let (variant, dtypes, options) = (case_variant(case)?, case.dtypes()?, case.attention_options()?);
    let qo_indptr = indptr(&case.qo_lens.to_vec())?;
    let keys = Keys::new(case, &qo_indptr)?;
    let levels = keys.levels();
    let batch = keys.batch(&qo_indptr, &levels);
    let plan = || {
        let attention = engine.attention_with(&variant, case.heads(), dtypes, options)?;
        if engine.is_cpu() {
            return attention.plan(&batch, &mut engine.workspace()).map(drop);
        }
        Preparation::without_loading(engine).add(&Workload::Batch { attention: &attention, batch: &batch })
    };
    Ok(plan())
}
