//! Checks of a case against the f64 reference.

use serde::Serialize;

use attn::cpu::{self, RowRounding};
use attn::lang::Hook;
use attn::planner::WorkList;
use attn::{Engine, Error, Variant};

use super::inputs::Inputs;
use super::outputs::OutputTensors;
use super::setup::Setup;
use super::{Case, Distance, StoredOutputs, TestError, Tolerance, case_variant};

/// The tolerance of a log-sum-exp, in ulps of the largest one. A large bias is rounded four times: when it is computed,
/// when it is scaled to the unit of Q K^T, when Q K^T is added, and when the sum is scaled to a logit.
const LSE_UNITS: f64 = 6.0;

/// Options of a check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckOptions {
    /// The most multiplications and additions of the reference; a case that takes more is refused.
    pub max_cost: u64,
    /// The tolerance; by default that of the dtype, as [`check`] says.
    pub tolerance: Option<Tolerance>,
}

impl Default for CheckOptions {
    /// 2e10 operations, about ten seconds on two cores; the tolerance of the dtype.
    fn default() -> Self {
        CheckOptions { max_cost: 20_000_000_000, tolerance: None }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CheckResult {
    /// The distances.
    #[serde(flatten)]
    pub distance: Distance,
    /// Whether a second run (a graph replay if the case asks for it) gave the same bits.
    pub rerun_identical: bool,
    /// If the case asks for a graph: whether a replay after [`Plan::update`](attn::Plan::update) gave the same bits.
    /// The run is captured for another batch, and the plan is updated to the case's batch; on the CPU the updated plan
    /// runs. The other batch has half of the requests, queries and keys, or the requests in reverse. `None` for a
    /// variant whose tensors depend on the lengths of the batch, and for a cascade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_identical: Option<bool>,
    /// Whether a run wrote behind the end of an output.
    pub wrote_outside: bool,
    /// The tolerance.
    pub tolerance: Tolerance,
    /// The distance to a reference that does not round transformed rows, if the kernel rounds them to 16 bits. It is
    /// reported and not judged, because it grows with the norm of the rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrounded: Option<Distance>,
    /// If the variant stores to tensors (`OutTensor`): the distance between what the run and the reference store. The
    /// tolerance is that of a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<StoredOutputs>,
    /// Whether everything passed.
    pub passed: bool,
    /// The kernel and the device.
    pub ran: String,
}

impl CheckResult {
    /// The failures in words; empty if everything passed.
    #[must_use]
    pub fn why(&self) -> String {
        let (d, t) = (&self.distance, &self.tolerance);
        let mut why = Vec::new();
        let mut over = |name: &str, is: f64, may: f64| {
            // NaN is never within a tolerance
            if !matches!(is.partial_cmp(&may), Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)) {
                why.push(format!("{name} {is:.2e} > {may:.1e}"));
            }
        };
        over("rel_err", d.rel_err, t.rel);
        over("row_err", d.row_err, t.row);
        over("lse_err", d.lse_err, t.lse);
        if let Some(stored) = &self.stored {
            over("stored_err", stored.stored_err, t.row);
            if stored.untouched > 0 {
                why.push(format!("{} of {} elements were not stored", stored.untouched, stored.elements));
            }
            if stored.nan > 0 {
                why.push(format!("{} NaN stored", stored.nan));
            }
        }
        if d.nan > 0 {
            why.push(format!("{} NaN", d.nan));
        }
        if !self.rerun_identical {
            why.push("a second run gave other bits".to_owned());
        }
        if self.replay_identical == Some(false) {
            why.push("a replay with this batch in place of another gave other bits".to_owned());
        }
        if self.wrote_outside {
            why.push("something was written behind the end of an output".to_owned());
        }
        why.join(", ")
    }
}

/// Runs a case twice on an engine and compares it with the f64 reference on the same rounded inputs.
///
/// Unused page slots and pages hold NaN, and so do outputs and workspace before the run.
///
/// Tensor cores take 16-bit operands, so a kernel rounds rows that a variant transforms ([`RowRounding`] names the
/// types, also those of CUDA cores). The reference rounds them too. [`CheckResult::unrounded`] reports the error of
/// this rounding, which grows with the norm of the rows: with norm weights around 2, the log-sum-exp moves by up to
/// 4e-3. Ties still differ. Kernel and reference compute transformed rows that differ in the last bits of f32, so a
/// value near a tie may round to the other neighbour. That may move a logit as much as all roundings of a row together.
/// So where keys are transformed, the tolerance of the log-sum-exp is at least the distance by which rounding moves it
/// in the reference. It is also at least 6 ulps of the largest log-sum-exp, which matters where logits are in the
/// thousands.
///
/// Each run, and the reference, stores to output tensors (`OutTensor`) of its own, which start with the values of the
/// case's. The case's tensors do not change. Stored values are compared after the first run, after the second run, and
/// after a run of another plan with fresh tensors (a graph replay if the case asks for it).
///
/// # Errors
///
/// The case cannot be run.
pub fn check(case: &Case, engine: &Engine) -> Result<CheckResult, TestError> {
    check_with(case, engine, &CheckOptions::default())
}

/// [`check`] with options.
///
/// # Errors
///
/// As [`check`].
pub fn check_with(case: &Case, engine: &Engine, options: &CheckOptions) -> Result<CheckResult, TestError> {
    check_as(case, &case_variant(case)?, engine, options)
}

/// Checks a case with a variant in place of its expression.
pub(super) fn check_as(
    case: &Case,
    variant: &Variant,
    engine: &Engine,
    options: &CheckOptions,
) -> Result<CheckResult, TestError> {
    let cost = case.check_cost();
    if cost > options.max_cost {
        return Err(TestError::TooBig { cost: cost as f64, limit: options.max_cost as f64 });
    }
    let inputs = Inputs::new(case, false)?;
    let mut tolerance = Tolerance::of(case.dtypes()?.qo);
    let of_run = OutputTensors::copy_of(variant)?;
    let mut setup = Setup::new(case, &of_run.variant, &inputs, engine, 0)?;

    let mut judge = OutputTensors::copy_of(variant)?;
    let exact = reference(case, &judge.variant, &inputs, RowRounding::None)?;
    let rewrites =
        [Hook::QueryTransform, Hook::KeyTransform, Hook::ValueTransform].into_iter().any(|hook| variant.has(hook));
    let rounding = setup.row_rounding();
    let rounded = if rounding != RowRounding::None && rewrites {
        judge = OutputTensors::copy_of(variant)?;
        let rounded = reference(case, &judge.variant, &inputs, rounding)?;
        if variant.has(Hook::KeyTransform) {
            tolerance.lse = tolerance.lse.max(moved(&rounded.lse, &exact.lse));
        }
        Some(rounded)
    } else {
        None
    };
    let largest = exact.lse.iter().filter(|lse| lse.is_finite()).fold(0.0f64, |most, lse| most.max(lse.abs()));
    tolerance.lse = tolerance.lse.max(LSE_UNITS * f64::from(f32::EPSILON) * largest);
    let tolerance = options.tolerance.unwrap_or(tolerance);

    let first = setup.run_once()?;
    let mut stored = fetched(&setup, &of_run, &judge, &tolerance)?;
    if case.graph {
        setup.capture()?;
    }
    let second = setup.run_once()?;
    if let Some(so_far) = stored {
        let again = fetched(&setup, &of_run, &judge, &tolerance)?;
        let alone = OutputTensors::copy_of(variant)?;
        let mut setup = Setup::new(case, &alone.variant, &inputs, engine, 0)?;
        if case.graph {
            setup.capture()?;
        }
        setup.run_once()?;
        let other = fetched(&setup, &alone, &judge, &tolerance)?;
        stored = Some([again, other].into_iter().flatten().fold(so_far, StoredOutputs::worse));
    }

    let (o, head_dim) = (first.o.to_f32(), case.head_dim as usize);
    let distance_to = |want: &cpu::OracleOut| Distance::between(&o, &want.o, head_dim, Some((&first.lse, &want.lse)));
    let (distance, unrounded) = match &rounded {
        Some(rounded) => (distance_to(rounded), Some(distance_to(&exact))),
        None => (distance_to(&exact), None),
    };
    let rerun_identical = first.same_bits(&second);
    let updated = if case.graph { setup.run_updated(&inputs)? } else { None };
    let replay_identical = updated.as_ref().map(|run| first.same_bits(run));
    let wrote_outside = first.outside || second.outside || updated.is_some_and(|run| run.outside);
    Ok(CheckResult {
        distance,
        rerun_identical,
        replay_identical,
        wrote_outside,
        tolerance,
        unrounded,
        stored,
        passed: distance.within(&tolerance)
            && stored.is_none_or(|stored| stored.within(tolerance.row))
            && rerun_identical
            && replay_identical != Some(false)
            && !wrote_outside,
        ran: setup.ran(),
    })
}

/// The stored outputs so far against the reference; `None` if the variant stores nothing.
fn fetched(
    setup: &Setup,
    of_run: &OutputTensors,
    judge: &OutputTensors,
    tolerance: &Tolerance,
) -> Result<Option<StoredOutputs>, TestError> {
    if !of_run.stores() {
        return Ok(None);
    }
    setup.plan.fetch_outputs(&setup.stream)?;
    Ok(Some(of_run.against(judge, tolerance.row)))
}

/// The largest distance by which rounding moves a log-sum-exp.
fn moved(rounded: &[f64], exact: &[f64]) -> f64 {
    let apart = rounded.iter().zip(exact).map(|(a, b)| (a - b).abs());
    // rows without keys have -inf in both
    apart.filter(|apart| apart.is_finite()).fold(0.0, f64::max)
}

/// The f64 reference.
fn reference(
    case: &Case,
    variant: &Variant,
    inputs: &Inputs,
    rounding: RowRounding,
) -> Result<cpu::OracleOut, TestError> {
    let levels = inputs.levels();
    let layout = inputs.batch(&levels).validate()?;
    let bound = variant.bind(&case.dims()).map_err(Error::from)?;
    let work = WorkList::default(); // the oracle ignores the work list
    Ok(cpu::oracle_with(&inputs.problem(case, &bound, &layout, &work)?, rounding).map_err(Error::from)?)
}

#[cfg(test)]
mod tests {
    use super::{Distance, Inputs, RowRounding, case_variant, moved, reference};
    use crate::{Case, LayoutKind, Lens, LevelCase};
    use attn::Engine;

    #[test]
    fn rounding_changes_transformed_rows_only() {
        let distance = |variant: &str, dtype: &str| {
            let mut case = Case::new(variant);
            // the type of queries, and that of keys and values if it differs
            let mut types = dtype.split(' ').map(str::to_owned);
            (case.dtype, case.kv_dtype) = (types.next().unwrap_or_default(), types.next());
            let (made, inputs) = (case_variant(&case).expect(variant), Inputs::new(&case, false).expect("sound"));
            let of = |rounding| reference(&case, &made, &inputs, rounding).expect("runs");
            let (exact, rounded) = (of(RowRounding::None), of(RowRounding::Elements));
            let [o, lse] = [&rounded.o, &rounded.lse].map(|x| x.iter().map(|&x| x as f32).collect::<Vec<_>>());
            Distance::between(&o, &exact.o, 64, Some((&lse, &exact.lse)))
        };
        let apart = |variant: &str, dtype: &str| distance(variant, dtype).rel_err;
        // the output is compared in f32, whose rounding is 3e-8
        assert!(apart("causal + soft_cap(cap=30)", "bf16") < 1e-7, "no row is rewritten");
        for expr in ["temperature(floor_scale=2)", "causal + rope"] {
            assert!(apart(expr, "f32") < 1e-7, "f32 rows are not rounded");
        }
        let (f16, bf16) = (apart("causal + rope", "f16"), apart("causal + rope", "bf16"));
        assert!(f16 > 1e-5 && bf16 > 1e-5 && f16.max(bf16) < 1e-3, "rows meet rewritten keys in f16: {f16} {bf16}");
        // the relative error of Q K^T is about 2^-11, so the error of the log-sum-exp grows with the norm of the rows
        let [short, long] =
            [0.0, 0.5].map(|m| distance(&format!("causal + yarn(factor=20, mscale={m})"), "bf16").lse_err);
        assert!(long > 1e-3 && long > 4.0 * short && short > 1e-5, "{short} {long}");
        let (f16, bf16) = (apart("temperature(floor_scale=2)", "f16"), apart("temperature(floor_scale=2)", "bf16"));
        assert!(f16 > 1e-5 && bf16 > 4.0 * f16 && bf16 < 1e-2, "{f16} {bf16}");
        // over an fp8 cache all transformed rows are f16
        for expr in ["temperature(floor_scale=2)", "value_norm", "rope"] {
            let (over_fp8, bf16) = (apart(expr, "bf16 e4m3"), apart(expr, "bf16"));
            assert!(over_fp8 > 1e-5 && over_fp8 < 5e-4 && over_fp8 < 1.5 * bf16, "{expr}: {over_fp8} {bf16}");
            assert!(apart(expr, "f32 e5m2") < 1e-7, "{expr}: there is no such kernel");
        }
    }

    #[test]
    fn stored_outputs_are_compared() {
        let mut case = Case::new("causal + logits_dump(columns=80) + max_logit(max=[-1e9, -1e9, -1e9, -1e9])");
        case.graph = true;
        let result = super::check(&case, &Engine::cpu()).expect("it runs");
        assert!(result.passed, "{}", result.why());
        let stored = result.stored.expect("it stores");
        // 17 queries of 33 keys and 1 of 70, causal, in 4 heads; and 4 maxima
        let pairs: u64 = (17..=33).sum::<u64>() + 70;
        assert_eq!((stored.elements, stored.untouched), (4 * pairs + 4, 0));
        assert_eq!(result.replay_identical, Some(true));
        let without = super::check(&Case::new("causal"), &Engine::cpu()).expect("it runs");
        assert_eq!(without.replay_identical, None, "there is no graph");
        let record = serde_json::to_value(&without).expect("JSON");
        assert!(without.passed && record.get("stored").is_none(), "{record}");

        let nothing = super::StoredOutputs { stored_err: 1.0, untouched: 3, ..stored };
        let result = super::CheckResult { stored: Some(nothing), ..result };
        assert!(result.why().contains("stored_err") && result.why().contains("3 of"), "{}", result.why());
        assert_eq!(serde_json::to_value(&result).expect("JSON")["stored"]["untouched"], 3);
    }

    #[test]
    fn plans_are_updated_with_tensors_over_lengths_too() {
        for variant in ["causal + rope", "documents"] {
            for layout in [LayoutKind::Ragged, LayoutKind::Paged] {
                let mut case = Case::new(variant);
                (case.graph, case.kv_layout) = (true, layout);
                (case.qo_lens, case.kv_lens) = (Lens::List(vec![5, 0, 64, 1]), Lens::List(vec![77, 3, 64, 40]));
                let result = super::check(&case, &Engine::cpu()).expect("it runs");
                assert!(result.passed && result.replay_identical == Some(true), "{variant}: {}", result.why());
                let bad = super::CheckResult { replay_identical: Some(false), ..result };
                assert!(bad.why().contains("in place of another"), "{}", bad.why());
            }
        }
    }

    #[test]
    fn cascades_are_replayed_after_an_update() {
        for layout in [LayoutKind::Cascade, LayoutKind::RaggedCascade] {
            let mut case = Case::new("causal + alibi");
            (case.graph, case.kv_layout) = (true, layout);
            (case.qo_lens, case.kv_lens) = (Lens::List(vec![1, 5, 0, 1]), Lens::List(vec![7, 30, 3, 40]));
            let level = |groups: &[u32], lens: &[u32]| LevelCase {
                groups: groups.to_vec(),
                kv_lens: Lens::List(lens.to_vec()),
                page_size: None,
            };
            case.levels = vec![level(&[4], &[700]), level(&[2, 2], &[31, 0])];
            let result = super::check(&case, &Engine::cpu()).expect("it runs");
            assert!(result.passed && result.replay_identical == Some(true), "{layout:?}: {}", result.why());
        }
    }

    #[test]
    fn rounding_is_measured_over_rows_with_keys() {
        let none = f64::NEG_INFINITY;
        assert_eq!(moved(&[1.0, none, 3.5], &[1.25, none, 3.0]), 0.5);
        assert_eq!(moved(&[none], &[none]), 0.0);
    }
}
