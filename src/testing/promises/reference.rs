//! Every kernel computes what the reference computes.

use crate::stock::Causal;
use crate::testing::check::check_as;
use crate::testing::{Case, CheckOptions, TestError, fill, grid};
use crate::{Engine, Variant};

/// Checks a variant of one's own on a small grid: alone and with `causal` (where they go together), in every kernel, ragged and
/// paged, short and long keys; on the CPU, and on GPU 0 where there is one. One line in a test:
///
/// ```
/// # use attn::{Variant, testing::check_variant};
/// check_variant(&Variant::parse("soft_cap(cap=30)")?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Tensors of the variant must fit 8 query heads, 2 KV heads and a head dim of 64.
///
/// # Errors
///
/// [`TestError::Wrong`] names the first case that is outside tolerance; everything else is a case that cannot be run.
pub fn check_variant(variant: &Variant) -> Result<(), TestError> {
    let mut engines = vec![Engine::cpu()];
    engines.extend(Engine::auto().ok().filter(|engine| !engine.is_cpu()));
    let mut variants = vec![variant.clone()];
    variants.extend(variant.clone().and(Causal).ok());
    for engine in &engines {
        for variant in &variants {
            grid::of_variant().into_iter().try_for_each(|case| check_case(variant, case, engine))?;
        }
    }
    Ok(())
}

fn check_case(variant: &Variant, case: Case, engine: &Engine) -> Result<(), TestError> {
    let complete = fill::complete(variant, &case.dims(), case.seed)?;
    let result = check_as(&case, &complete, engine, &CheckOptions::default())?;
    if result.passed {
        return Ok(());
    }
    let case = serde_json::to_string(&Case { variant: variant.to_string(), ..case }).unwrap_or_default();
    Err(TestError::Wrong { ran: result.ran.clone(), why: result.why(), case })
}
