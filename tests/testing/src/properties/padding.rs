//! Unused memory changes nothing: slots without a key, spare pages, other requests' sizes.

use crate::inputs::Inputs;
use crate::setup::Setup;
use crate::{Case, TestError, fill};
use attn::{Engine, Variant};

use super::violated;

/// Runs some cases with NaN in slots without a key, and again with zeros there: on the CPU, and on GPU 0 if there is
/// one.
///
/// # Errors
///
/// The first result whose bits differ.
pub fn padding(variant: &Variant) -> Result<(), TestError> {
    let mut engines = vec![Engine::cpu()];
    engines.extend(Engine::auto().ok().filter(|engine| !engine.is_cpu()));
    for engine in &engines {
        for case in super::cases::cases() {
            let variant = fill::complete(variant, &case.dims(), &case)?;
            let poisoned = Inputs::new(&case, false)?;
            let mut clean = Inputs::new(&case, false)?;
            clean.replace_nan();
            same(&case, &variant, engine, [&poisoned, &clean])?;
        }
    }
    Ok(())
}

/// Runs a case on two inputs, which must give the same bits.
pub(super) fn same(case: &Case, variant: &Variant, engine: &Engine, inputs: [&Inputs; 2]) -> Result<(), TestError> {
    let run = |inputs: &Inputs| Setup::new(case, variant, inputs, engine, 0)?.run_once();
    let (a, b) = (run(inputs[0])?, run(inputs[1])?);
    if a.same_bits(&b) {
        return Ok(());
    }
    let why = format!("on {engine}: {}", serde_json::to_string(case).unwrap_or_default());
    Err(violated("the content of slots without a key changes the result", why))
}
