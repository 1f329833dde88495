//! What nobody owns changes nothing: slots of pages without a key, spare pages, other requests' sizes.

use crate::testing::inputs::Inputs;
use crate::testing::setup::Setup;
use crate::testing::{Case, TestError, fill, grid};
use crate::{Engine, Variant};

use super::broken;

/// Computes some cases with NaN where there is no key, and again with zeros there: on the CPU, and on GPU 0 where there is one.
///
/// # Errors
///
/// A result whose bits differ.
pub fn padding(variant: &Variant) -> Result<(), TestError> {
    let mut engines = vec![Engine::cpu()];
    engines.extend(Engine::auto().ok().filter(|engine| !engine.is_cpu()));
    for engine in &engines {
        for case in grid::of_variant() {
            let variant = fill::complete(variant, &case.dims(), case.seed)?;
            let poisoned = Inputs::new(&case, false)?;
            let mut clean = Inputs::new(&case, false)?;
            clean.replace_nan();
            same(&case, &variant, engine, [&poisoned, &clean])?;
        }
    }
    Ok(())
}

/// Computes a case on two inputs, which are to give the same bits.
pub(super) fn same(case: &Case, variant: &Variant, engine: &Engine, inputs: [&Inputs; 2]) -> Result<(), TestError> {
    let run = |inputs: &Inputs| Setup::new(case, variant, inputs, engine, 0)?.run_once();
    let (a, b) = (run(inputs[0])?, run(inputs[1])?);
    let same_lse = a.lse.iter().map(|x| x.to_bits()).eq(b.lse.iter().map(|x| x.to_bits()));
    if a.o.bytes() == b.o.bytes() && same_lse {
        return Ok(());
    }
    let why = format!("on {engine}: {}", serde_json::to_string(case).unwrap_or_default());
    Err(broken("what lies where there is no key changes the result", why))
}
