//! Checks of a case against the f64 reference.

use serde::Serialize;

use attn::{Engine, Variant};

use super::inputs::Inputs;
use super::outputs::OutputTensors;
use super::setup::Setup;
use super::{Case, Distance, Expected, Info, StoredOutputs, TestError, Tolerance, case_variant};

/// Options of a check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckOptions {
    /// The most multiplications and additions of the reference; a case that takes more is refused.
    pub max_cost: u64,
    /// The tolerance; by default that of the dtype, as [`check`] says.
    pub tolerance: Option<Tolerance>,
    /// Whether the device updates a plan before its replay ([`Plan::update_on_device`](attn::Plan::update_on_device)),
    /// where it can plan the batch.
    pub device_plans: bool,
}

impl Default for CheckOptions {
    /// 2e10 operations, about ten seconds on two cores; the tolerance of the dtype.
    fn default() -> Self {
        CheckOptions { max_cost: 20_000_000_000, tolerance: None, device_plans: false }
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
    /// Whether the device planned that replay.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub planned_on_device: bool,
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
    /// The key of the main kernel's source, as the cache of cubins has it; none on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The key of what a GPU executes of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
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
///
/// Log-sum-exps are within 1e-5 and 6 ulps of the largest one, which matters where logits are in the thousands. Where
/// queries or keys are transformed and rounded, the tolerance is larger by 5e-4, or by the distance by which rounding
/// moves a log-sum-exp in the reference, if that is more: one missing key of many is not seen there, and is seen in a
/// counting case. Where a hook calls `approx::tanh` on a GPU, it is larger by
/// 1e-3. A counting case ([`Case::counting`]) is compared with the number of its visible keys instead.
///
/// [`RowRounding`]: attn_core::cpu::RowRounding
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
/// The case cannot be run, or costs more than the options allow.
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
    let of_run = OutputTensors::copy_of(variant)?;
    let mut setup = Setup::new(case, &of_run.variant, &inputs, engine, 0)?;

    let mut judge = None;
    let mut fresh = || Ok(judge.insert(OutputTensors::copy_of(variant)?).variant.clone());
    let expected = Expected::new(case, &inputs, setup.rounding(), &mut fresh)?;
    let judge = judge.map_or_else(|| OutputTensors::copy_of(variant), Ok)?;
    let tolerance = options.tolerance.unwrap_or_else(|| expected.tolerance());

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

    let o = case.o_scale().times(first.o.to_f32());
    let (distance, unrounded) = (expected.distance(&o, &first.lse), expected.unrounded(&o, &first.lse));
    let rerun_identical = first.same_bits(&second);
    let updated = if case.graph { setup.run_updated(&inputs, options.device_plans)? } else { None };
    let replay_identical = updated.as_ref().map(|(run, _)| first.same_bits(run));
    let planned_on_device = updated.as_ref().is_some_and(|(_, on_device)| *on_device);
    let wrote_outside = first.outside || second.outside || updated.is_some_and(|(run, _)| run.outside);
    let Info { key, code, .. } = setup.kernel_info();
    Ok(CheckResult {
        distance,
        rerun_identical,
        replay_identical,
        planned_on_device,
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
        key,
        code,
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

#[cfg(test)]
mod tests {
    use crate::{Case, LayoutKind, Lens, LevelCase};
    use attn::Engine;

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
    fn replays_are_planned_on_the_device() {
        for layout in [LayoutKind::Ragged, LayoutKind::Paged, LayoutKind::BlockTable] {
            let mut case = Case { kv_layout: layout, graph: true, ..Case::new("causal + sliding_window(window=20)") };
            (case.qo_lens, case.kv_lens) = (Lens::List(vec![5, 0, 64, 1]), Lens::List(vec![77, 3, 64, 40]));
            let options = super::CheckOptions { device_plans: true, ..Default::default() };
            let result = super::check_with(&case, &Engine::cpu(), &options).expect("it runs");
            assert!(result.passed && result.planned_on_device, "{layout:?}: {}", result.why());
            assert_eq!(result.replay_identical, Some(true), "{layout:?}");
            assert!(!super::check(&case, &Engine::cpu()).expect("it runs").planned_on_device);
        }
    }

    #[test]
    fn cascades_are_planned_on_the_device() {
        let mut case = Case { kv_layout: LayoutKind::Cascade, graph: true, ..Case::new("causal") };
        (case.qo_lens, case.kv_lens) = (Lens::List(vec![1; 8]), Lens::List(vec![7; 8]));
        let level = |page_size| LevelCase { groups: vec![8], kv_lens: Lens::List(vec![400]), page_size };
        let options = super::CheckOptions { device_plans: true, ..Default::default() };
        for (page_size, on_device) in [(None, true), (Some(2 * case.page_size), false)] {
            let case = Case { levels: vec![level(page_size)], ..case.clone() };
            let result = super::check_with(&case, &Engine::cpu(), &options).expect("it runs");
            assert!(result.passed && result.planned_on_device == on_device, "{page_size:?}: {}", result.why());
        }
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
}
