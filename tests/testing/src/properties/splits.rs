//! How work is split changes nothing but rounding.

use crate::expected::reference;
use crate::inputs::Inputs;
use crate::{Case, Distance, TestError, Tolerance, fill};
use attn::{Error, Variant};
use attn_core::cpu::{self, OracleOut, RowRounding};
use attn_core::plan::{Cost, PlanRule, Schedule, WorkList};
use attn_core::tensor::{Out, TensorMut};

use super::violated;

/// Runs some cases, each in one layout, on the CPU in f32: unsplit, in tiles of other sizes, with many KV splits, and
/// with these merged in the opposite order. Sums of signed weights may differ by as much more as they are smaller than
/// their terms.
///
/// # Errors
///
/// A split that changes the result by more than f32 rounding.
pub fn splits(variant: &Variant) -> Result<(), TestError> {
    for mut case in super::cases::one_layout_each() {
        "f32".clone_into(&mut case.dtype);
        let variant = fill::complete(variant, &case.dims(), &case)?.bind(&case.dims()).map_err(Error::from)?;
        let inputs = Inputs::new(&case, false)?;
        let layout = inputs.batch(&[]).validate()?;
        let plan = |tile_rows, workers, schedule| {
            let cost = Cost { item: 1, block: 2, merge: 0 };
            let rule = PlanRule { tile_rows, kv_align: 16, min_span: 16, workers, cost, schedule };
            WorkList::build_for(&variant, &layout, case.heads(), &rule.into())
                .map_err(|error| TestError::from(Error::from(error)))
        };
        let whole = compute(&case, &variant, &inputs, &plan(64, 1, Schedule::StreamK)?)?;
        let exact = reference(&case, &variant, &inputs, RowRounding::None)?;
        let want = OracleOut { o: widen(&whole.0), lse: widen(&whole.1), ..exact };
        let split = plan(16, 400, Schedule::LongestFirst)?;
        for (how, work) in [
            ("in smaller tiles", plan(5, 1, Schedule::StreamK)?),
            ("dealt to workers in spans of one line", plan(16, 37, Schedule::StreamK)?),
            ("split at multiples of 48 keys", plan(16, 7, Schedule::FixedSplit { keys: 48 })?),
            ("with many KV splits", split.clone()),
            ("with many KV splits, merged backwards", backwards(split)),
        ] {
            let (o, lse) = compute(&case, &variant, &inputs, &work)?;
            let distance = Distance::to(&want, &o, &lse, inputs.o_shape()[2]);
            let tolerance = Tolerance::of(attn::Dtype::F32).with_lse_ulps(&want.lse);
            if !distance.within(&tolerance) {
                let case = serde_json::to_string(&case).unwrap_or_default();
                let why = format!("{how}: {distance:?}, tolerance {tolerance:?}; the case is {case}");
                return Err(violated("the result depends on how the work is split", why));
            }
        }
    }
    Ok(())
}

fn widen(x: &[f32]) -> Vec<f64> {
    x.iter().copied().map(f64::from).collect()
}

/// Reverses the order of the partials of each merge.
fn backwards(mut work: WorkList) -> WorkList {
    let mut moved: Vec<i32> = (0..work.partial_rows as i32).collect();
    for merge in &work.merges {
        let states: Vec<i32> = work.states_of(merge).collect();
        states.iter().zip(states.iter().rev()).for_each(|(from, to)| moved[*from as usize] = *to);
    }
    for item in work.items.iter_mut().filter(|item| item.partial >= 0) {
        item.partial = moved[item.partial as usize];
    }
    work
}

/// Output and log-sum-exp.
fn compute(
    case: &Case,
    variant: &Variant,
    inputs: &Inputs,
    work: &WorkList,
) -> Result<(Vec<f32>, Vec<f32>), TestError> {
    let layout = inputs.batch(&[]).validate()?;
    let shape = inputs.o_shape();
    let (mut o, mut lse) = (vec![f32::NAN; shape.iter().product()], vec![f32::NAN; shape[0] * shape[1]]);
    let problem = inputs.problem(case, variant, &layout, work)?;
    let tensor = TensorMut::host(&mut o, &shape).map_err(Error::from)?;
    let out = Out::with_lse(tensor, TensorMut::host(&mut lse, &shape[..2]).map_err(Error::from)?);
    cpu::run(&problem, out).map_err(Error::from)?;
    Ok((o, lse))
}
