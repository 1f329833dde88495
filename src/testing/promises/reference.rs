//! Every kernel computes what the reference computes.

use crate::testing::check::check_as;
use crate::testing::{Case, CheckOptions, TestError, fill, grid};
use crate::{Engine, Variant};

/// Checks a variant of one's own on a small grid: alone and with `causal`, in every kernel, ragged and paged, short and long
/// keys; on the CPU, and on GPU 0 where there is one. One line in a test:
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
    for engine in &engines {
        for case in grid::of_variant() {
            let complete = fill::complete(variant, &case.dims(), case.seed)?;
            let result = check_as(&case, &complete, engine, &CheckOptions::default())?;
            if !result.passed {
                let case = serde_json::to_string(&Case { variant: variant.to_string(), ..case }).unwrap_or_default();
                return Err(TestError::Wrong { ran: result.ran.clone(), why: result.why(), case });
            }
        }
    }
    Ok(())
}
