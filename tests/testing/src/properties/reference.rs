//! Every kernel agrees with the reference.

use crate::check::check_as;
use crate::{Case, CheckOptions, TestError, fill};
use attn::stock::Causal;
use attn::{Engine, Variant};

/// Checks a variant on a small grid: alone and with `causal` (if they compose), in every kernel, ragged and paged, with
/// short and long keys; on the CPU, and on GPU 0 if there is one. One line in a test:
///
/// ```
/// # use attn::Variant;
/// # use attn_testing::check_variant;
/// check_variant(&Variant::parse("soft_cap(cap=30)")?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Given tensors of the variant must fit 8 query heads, 2 KV heads and a head dim of 64.
///
/// # Errors
///
/// [`TestError::Wrong`] names the first case outside of its tolerance. Other errors are cases that cannot be run.
pub fn check_variant(variant: &Variant) -> Result<(), TestError> {
    let mut engines = vec![Engine::cpu()];
    engines.extend(Engine::auto().ok().filter(|engine| !engine.is_cpu()));
    let mut variants = vec![variant.clone()];
    variants.extend(variant.clone().and(Causal).ok());
    for engine in &engines {
        for variant in &variants {
            super::cases::cases().into_iter().try_for_each(|case| check_case(variant, case, engine))?;
        }
    }
    Ok(())
}

fn check_case(variant: &Variant, case: Case, engine: &Engine) -> Result<(), TestError> {
    let complete = fill::complete(variant, &case.dims(), &case)?;
    let result = check_as(&case, &complete, engine, &CheckOptions::default())?;
    if result.passed {
        return Ok(());
    }
    let case = serde_json::to_string(&Case { variant: variant.to_string(), ..case }).unwrap_or_default();
    Err(TestError::Wrong { ran: result.ran.clone(), why: result.why(), case })
}
