//! The reference: attention by its definition, in plain loops that accumulate in f64.
//!
//! It shares with the fast path only how rows are read and how coordinates are computed. It has no tiles, no KV splits
//! and no running maximum, and it never uses tile classes, `kv_range` or the branches that a plan makes of a union.

use rayon::prelude::*;

use super::checked_problem::CheckedProblem;
use super::math::{Simd, axpy64, dot64};
use super::read::round_row;
use super::{CpuError, Problem};
use crate::dtype::Dtype;
use crate::expr::{Node, Variant};
use crate::lang::{Hook, LogitIndex, Normalizer, RowIndex, RowState, bits};

/// The result of [`oracle`].
#[derive(Clone, Debug, PartialEq)]
pub struct OracleOut {
    /// (qo tokens, qo heads, value_dim), contiguous.
    pub o: Vec<f64>,
    /// (qo tokens, qo heads), contiguous: log-sum-exp in natural log.
    pub lse: Vec<f64>,
    /// (qo tokens, qo heads), contiguous: how many times larger an error of the log-sum-exp may be than one of a logit.
    /// It is 1 for a softmax. Other weights may be negative, and their sum small: then it is the sum of their
    /// magnitudes over the magnitude of their sum, over that magnitude again where it is below 1.
    pub condition: Vec<f64>,
    /// (qo tokens, qo heads), contiguous: how many times larger a relative error of an output may be than one of a
    /// weight, where it is divided by a sum of signed weights: the sum of their magnitudes over the magnitude of their
    /// sum. It is 1 for a softmax, for positive weights, and where nothing is divided.
    pub cancellation: Vec<f64>,
}

/// The type to which rows are rounded after `query_transform`, `key_transform` and `value_transform`, where a variant
/// has these hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowRounding {
    /// No rounding: attention by its definition.
    #[default]
    None,
    /// As in tensor-core kernels: transformed values are rounded to the element type of v; queries and keys to f16
    /// (saturating) if the variant transforms keys; transformed queries alone to the element type of q. All of these
    /// are rounded to f16 if k and v have 8 bits or a KV format, and what a format decodes is, hook or not. Nothing is
    /// rounded if q is f32, for which there is no such kernel.
    ///
    /// Rounding to f16 changes each element of a row (past 2^-14) by a relative error of at most 2^-11. A logit changes
    /// by at most about `2^-10 * sm_scale * sum(abs(q_d * k_d))`, which is noticeable for long rows. A reference with
    /// the same rounding separates this error from errors of a kernel.
    Elements,
    /// As in kernels on CUDA cores: as [`RowRounding::Elements`], but queries stay f32.
    KeysAndValues,
    /// Prefill in [`ComputeType::E4m3`](crate::spec::ComputeType::E4m3), of variants that it supports: query rows are
    /// rounded to e4m3, each scaled by a power of two, and so are weights in the output and in its denominator; the
    /// log-sum-exp is of unrounded ones.
    ///
    /// Weights are rounded relative to the row's max, rounded up to a power of two; a kernel's max may be stale, which
    /// shows in weights below `2^-9` of the largest one alone.
    E4m3Compute,
}

/// Computes attention in f64. Hooks are in f32, so their inputs are rounded to f32 once, and only if the variant has
/// the hook. Hooks on logits are called for attended keys alone.
///
/// # Errors
///
/// The errors of [`run`](super::run).
pub fn oracle(problem: &Problem<'_>) -> Result<OracleOut, CpuError> {
    oracle_with(problem, RowRounding::None)
}

/// [`oracle`] with the rounding of transformed rows that a kernel documents.
///
/// # Errors
///
/// The errors of [`run`](super::run).
pub fn oracle_with(problem: &Problem<'_>, rounding: RowRounding) -> Result<OracleOut, CpuError> {
    rows(problem, rounding, false)
}

/// The oracle of a [partial run](super::run_partial): without sink and `output_transform`.
///
/// # Errors
///
/// The errors of [`run`](super::run).
pub fn oracle_partial(problem: &Problem<'_>, rounding: RowRounding) -> Result<OracleOut, CpuError> {
    rows(problem, rounding, true)
}

fn rows(problem: &Problem<'_>, rounding: RowRounding, partial: bool) -> Result<OracleOut, CpuError> {
    let dtypes = problem.dtypes();
    let sets = key_sets(problem.variant);
    let sets = sets.iter().map(|(variant, branch_mask)| {
        let packed = dtypes.format.is_some() && rounding != RowRounding::None;
        let rounds = |hook| rounding != RowRounding::None && variant.has(hook);
        // queries are rounded to f16 together with the keys
        let half = if dtypes.qo == Dtype::F32 { Dtype::F32 } else { Dtype::F16 };
        let as_stored = |dtype| if dtypes.kv.size() == 1 { half } else { dtype };
        let round_k = (packed || rounds(Hook::KeyTransform)).then_some(half);
        let alone = rounds(Hook::QueryTransform).then_some(as_stored(dtypes.qo));
        let mut problem = CheckedProblem { partial, ..Problem { variant, ..*problem }.checked()? };
        // where a hook runs, it sees what a format decodes before it is rounded
        if packed && !variant.has(Hook::KeyTransform) {
            problem.k.round_decoded(half);
        }
        if packed && !variant.has(Hook::ValueTransform) {
            problem.v.round_decoded(half);
        }
        Ok(KeySet {
            problem,
            branch_mask,
            round_q: round_k.or(alone).filter(|_| rounding == RowRounding::Elements),
            e4m3_compute: rounding == RowRounding::E4m3Compute,
            round_k: round_k.filter(|_| rounds(Hook::KeyTransform)),
            round_v: rounds(Hook::ValueTransform).then_some(as_stored(dtypes.kv)),
        })
    });
    let sets = sets.collect::<Result<Vec<_>, CpuError>>()?;
    let (heads, layout) = (problem.heads, problem.layout);
    let (kv_heads, group) = (heads.kv as usize, heads.group() as usize);
    let mut out = OracleOut {
        o: vec![0.0; layout.qo_tokens() * heads.qo as usize * problem.head_dim_vo.dim(heads) as usize],
        lse: vec![f64::NEG_INFINITY; layout.qo_tokens() * heads.qo as usize],
        condition: vec![1.0; layout.qo_tokens() * heads.qo as usize],
        cancellation: vec![1.0; layout.qo_tokens() * heads.qo as usize],
    };
    let finished: Vec<_> = (0..layout.batch() * kv_heads)
        .into_par_iter()
        .map(|task| {
            let (request, kv_head) = (task / kv_heads, task % kv_heads);
            let rows = layout.qo_len(request) * group;
            let keys = if rows == 0 { 0 } else { layout.kv_len(request) };
            let keys: Vec<_> = sets.iter().map(|set| LoadedKeys::load(set, request, keys, kv_head)).collect();
            (0..rows).into_par_iter().map(|packed| attend(&keys, request, kv_head, packed)).collect::<Vec<_>>()
        })
        .collect();
    for Row { at, o, lse, condition, cancellation } in finished.into_iter().flatten() {
        let index = at.qo_token as usize * heads.qo as usize + at.qo_head as usize;
        out.o[index * o.len()..][..o.len()].copy_from_slice(&o);
        (out.lse[index], out.condition[index], out.cancellation[index]) = (lse, condition, cancellation);
    }
    Ok(out)
}

/// The key sets of a variant, each as (all parts that apply to its keys, its own mask). A branch of a union has the
/// keys that its mask attends to and no earlier branch's mask does; parts outside of the union apply to every branch.
fn key_sets(variant: &Variant) -> Vec<(Variant, Variant)> {
    let nodes = variant.nodes();
    let union = nodes.iter().enumerate().find_map(|(index, node)| match node {
        Node::Union(branches) => Some((index, branches)),
        _ => None,
    });
    let Some((index, branches)) = union else { return vec![(variant.clone(), Variant::full())] };
    let with = |branch: &Variant| [&nodes[..index], branch.nodes(), &nodes[index + 1..]].concat();
    branches.iter().map(|branch| (Variant::of(with(branch)).stored_as(variant), branch.clone())).collect()
}

/// One key set, and the parts that apply to it.
struct KeySet<'a> {
    problem: CheckedProblem<'a>,
    /// The mask that defines the set.
    branch_mask: &'a Variant,
    round_q: Option<Dtype>,
    /// Whether queries and weights are rounded to e4m3.
    e4m3_compute: bool,
    round_k: Option<Dtype>,
    round_v: Option<Dtype>,
}

/// The transformed keys and values of one request and one KV head, for one key set.
struct LoadedKeys<'a> {
    set: &'a KeySet<'a>,
    simd: Simd,
    len: usize,
    k: Vec<f32>,
    v: Vec<f32>,
}

/// An attended key: its logit, weight and value.
struct Attended<'a> {
    logit: f32,
    exact: f64,
    weight: f64,
    denominator: f64,
    value: &'a [f32],
}

/// One row of [`OracleOut`].
struct Row {
    at: RowIndex,
    o: Vec<f64>,
    lse: f64,
    condition: f64,
    cancellation: f64,
}

/// One query row over all key sets.
fn attend(sets: &[LoadedKeys<'_>], request: usize, kv_head: usize, packed: usize) -> Row {
    let problem = &sets[0].set.problem;
    let at = problem.row_index(request, kv_head, packed);
    let sink = match !problem.partial && problem.variant.has(Hook::SinkLogit) {
        true => f64::from(problem.variant.sink_logit(at)),
        false => f64::NEG_INFINITY,
    };
    let mut taken = vec![false; sets[0].len];
    let mut attended: Vec<Vec<AttendedRun<'_>>> = sets.iter().map(|keys| keys.logits(at, &mut taken)).collect();

    let logits = || attended.iter().flatten().flat_map(|run| &run.keys).map(|key| key.exact);
    let normalizer = problem.normalizer;
    let row_max = match normalizer {
        Normalizer::Plain { .. } => 0.0,
        _ => logits().fold(sink, f64::max),
    };
    let some = logits().next().is_some() || sink > f64::NEG_INFINITY;
    let row_max = match normalizer {
        Normalizer::MaxScaled if some => row_max.max(f64::from(problem.max_floor)),
        _ => row_max,
    };
    // a row of NaN logits has the maximum -inf, but is not empty
    let subtract = if row_max == f64::NEG_INFINITY { 0.0 } else { row_max };
    for (keys, runs) in sets.iter().zip(&mut attended) {
        runs.iter_mut().for_each(|run| keys.fill_weights(run, subtract));
    }
    let mut denominator = if sink == f64::NEG_INFINITY { 0.0 } else { sink_denominator(problem, sink, subtract, at) };
    if sets[0].set.e4m3_compute {
        round_weights(&mut attended, subtract);
    }
    let (mut o, mut magnitudes) = (vec![0f64; problem.value_dim], denominator.abs());
    for key in attended.iter().flatten().flat_map(|run| &run.keys) {
        denominator += key.denominator;
        magnitudes += key.denominator.abs();
        axpy64(sets[0].simd, key.weight, key.value, &mut o);
    }
    if normalizer != (Normalizer::Plain { divide: false }) {
        let by = if denominator == 0.0 { 0.0 } else { denominator.recip() };
        o.iter_mut().for_each(|x| *x *= by);
    }
    let lse = match normalizer {
        Normalizer::Plain { .. } if denominator <= 0.0 => f64::NEG_INFINITY,
        _ if denominator == 0.0 => f64::NEG_INFINITY,
        _ => subtract + denominator.ln(),
    };
    let cancellation = magnitudes / denominator.abs();
    // a sum that is not positive has no logarithm, and is near one that has
    let sum = if lse == f64::NEG_INFINITY { denominator.abs() } else { lse.exp() };
    let (condition, cancellation) = match normalizer {
        Normalizer::Softmax => (1.0, 1.0),
        _ if magnitudes == 0.0 => (1.0, 1.0),
        Normalizer::Plain { divide: false } => (cancellation / sum.min(1.0), 1.0),
        _ => (cancellation / sum.min(1.0), cancellation),
    };
    transform_output(problem, &mut o, at, [row_max, denominator, lse]);
    Row { at, o, lse, condition, cancellation }
}

/// Rounds a query row to e4m3, scaled by the largest power of two that keeps it within 448.
fn round_query(q: &mut [f32]) {
    let most = q.iter().fold(0f32, |most, x| most.max(x.abs()));
    let scale = if most > 0.0 { f64::from(448.0 / most).log2().floor().clamp(-121.0, 60.0) as i32 } else { 0 };
    let (scale, inverse) = (2f32.powi(scale), 2f32.powi(-scale));
    q.iter_mut().for_each(|x| *x = bits::e4m3_round(*x * scale) * inverse);
}

/// Replaces the weights of a softmax by rounded ones, with the sum of the unrounded ones: a row's keys keep their share
/// beside a sink.
fn round_weights(attended: &mut [Vec<AttendedRun<'_>>], subtract: f64) {
    let keys = || attended.iter().flatten().flat_map(|run| &run.keys);
    let most = keys().map(|key| key.exact).fold(f64::NEG_INFINITY, f64::max);
    // the largest weight becomes 8 to 16
    let shift = 4.0 - (most * std::f64::consts::LOG2_E).ceil();
    let rounded = |x: f64| f64::from(bits::e4m3_round((x * std::f64::consts::LOG2_E + shift).exp2() as f32));
    let (sum, of_rounded) = keys().fold((0.0, 0.0), |(sum, of_rounded), key| {
        (sum + (key.exact - subtract).exp(), of_rounded + rounded(key.exact))
    });
    for key in attended.iter_mut().flatten().flat_map(|run| &mut run.keys) {
        key.weight = rounded(key.exact) * sum / of_rounded;
    }
}

/// Consecutive attended keys.
struct AttendedRun<'a> {
    at: LogitIndex,
    keys: Vec<Attended<'a>>,
}

impl<'a> LoadedKeys<'a> {
    fn load(set: &'a KeySet<'a>, request: usize, len: usize, kv_head: usize) -> Self {
        let problem = &set.problem;
        let head_dim = problem.heads.head_dim as usize;
        let (mut k, mut v) = (vec![0f32; len * head_dim], vec![0f32; len * problem.value_dim]);
        k.par_chunks_exact_mut(head_dim).zip(v.par_chunks_exact_mut(problem.value_dim)).enumerate().for_each(
            |(key, (k, v))| {
                problem.key(request, key, kv_head, k);
                problem.value(request, key, kv_head, v);
                round_row(k, set.round_k);
                round_row(v, set.round_v);
            },
        );
        LoadedKeys { set, simd: Simd::detect(), len, k, v }
    }

    /// The logits of the keys of this set that a row attends to. `taken` marks the keys of earlier sets; those of this
    /// set are added to it.
    fn logits(&'a self, at: RowIndex, taken: &mut [bool]) -> Vec<AttendedRun<'a>> {
        let (problem, variant) = (&self.set.problem, self.set.problem.variant);
        let from = problem.logit_index(at, 0);
        let mut branch_mask = vec![true; self.len];
        self.set.branch_mask.mask_tile(&mut branch_mask, from);
        let mut keep: Vec<bool> =
            branch_mask.iter().zip(&*taken).map(|(branch_mask, taken)| *branch_mask && !*taken).collect();
        taken.iter_mut().zip(branch_mask).for_each(|(taken, branch_mask)| *taken |= branch_mask);
        let slots = slots(variant, self.len, at);
        keep.iter_mut().zip(&slots).for_each(|(keep, slot)| *keep &= *slot >= 0);
        // the run of keys from `key` on that one call of a hook may cover
        let alike = |key: usize| match slots.get(key) {
            Some(slot) if problem.reads_kv_slot => {
                (*slot, slots[key..].iter().take_while(|other| *other == slot).count())
            }
            _ => (0, self.len - key),
        };
        let mut key = 0;
        while key < self.len {
            let (kv_slot, len) = alike(key);
            variant.mask_tile(&mut keep[key..key + len], LogitIndex { kv_slot, ..problem.logit_index(at, key) });
            key += len;
        }

        let head_dim = problem.heads.head_dim as usize;
        let mut q = vec![0f32; head_dim];
        problem.query(at, &mut q);
        round_row(&mut q, self.set.round_q);
        if self.set.e4m3_compute {
            round_query(&mut q);
        }
        let q: Vec<f64> = q.into_iter().map(f64::from).collect();
        let logit =
            |key: usize| dot64(self.simd, &q, &self.k[key * head_dim..][..head_dim]) * f64::from(problem.sm_scale);
        let mut runs = Vec::new();
        let mut key = 0;
        while key < self.len {
            let (kv_slot, most) = alike(key);
            let len = keep[key..key + most].iter().take_while(|keep| **keep).count();
            if len > 0 {
                let logits: Vec<f64> = (key..key + len).map(logit).collect();
                runs.push(self.run(key, logits, LogitIndex { kv_slot, ..problem.logit_index(at, key) }));
            }
            key += len.max(1);
        }
        runs
    }

    /// Consecutive attended keys from `key` on, after `logits_transform`.
    fn run(&'a self, key: usize, mut logits: Vec<f64>, at: LogitIndex) -> AttendedRun<'a> {
        let value_dim = self.set.problem.value_dim;
        let mut rounded: Vec<f32> = logits.iter().map(|logit| *logit as f32).collect();
        if self.set.problem.has_logits_transform {
            self.set.problem.variant.logits_tile(&mut rounded, at);
            logits = rounded.iter().copied().map(f64::from).collect();
        }
        let values = self.v[key * value_dim..].chunks_exact(value_dim);
        let keys = rounded.into_iter().zip(logits).zip(values);
        let key = |((logit, exact), value)| Attended { logit, exact, weight: 0.0, denominator: 0.0, value };
        AttendedRun { at, keys: keys.map(key).collect() }
    }

    /// Fills in weights and denominator terms.
    fn fill_weights(&self, run: &mut AttendedRun<'_>, row_max: f64) {
        let problem = &self.set.problem;
        if problem.normalizer == Normalizer::Softmax {
            for key in &mut run.keys {
                key.weight = (key.exact - row_max).exp();
                key.denominator = key.weight;
            }
            return;
        }
        let logits: Vec<f32> = run.keys.iter().map(|key| key.logit).collect();
        let (mut weights, mut denominators) = (logits.clone(), logits);
        problem.variant.weight_tile(&mut weights, row_max as f32, run.at);
        match problem.normalizer {
            Normalizer::MaxScaled => {
                problem.variant.denominator_tile(&mut denominators, &weights, row_max as f32, run.at);
            }
            _ => denominators.copy_from_slice(&weights),
        }
        for (key, (weight, denominator)) in run.keys.iter_mut().zip(weights.into_iter().zip(denominators)) {
            key.weight = f64::from(weight);
            key.denominator = f64::from(denominator);
        }
    }
}

/// For each key the index of its block in the row's list; -1 for a key in none. Empty without lists.
fn slots(variant: &Variant, keys: usize, at: RowIndex) -> Vec<i32> {
    let Some((block_size, _)) = variant.kv_list_sizes() else { return Vec::new() };
    let mut slots = vec![-1; keys];
    for n in 0..variant.kv_list_len(at) {
        let first = i64::from(variant.kv_list_block(at, n)) * i64::from(block_size);
        for key in first..first + i64::from(block_size) {
            if let Some(slot) = usize::try_from(key).ok().and_then(|key| slots.get_mut(key)) {
                *slot = n;
            }
        }
    }
    slots
}

/// The denominator term of a sink.
fn sink_denominator(problem: &CheckedProblem<'_>, sink: f64, row_max: f64, at: RowIndex) -> f64 {
    if problem.normalizer != Normalizer::MaxScaled {
        return (sink - row_max).exp();
    }
    let at = LogitIndex { row: at, kv_pos: -1, kv_token: -1, kv_slot: 0 };
    let (mut weight, mut denominator) = ([sink as f32], [sink as f32]);
    problem.variant.weight_tile(&mut weight, row_max as f32, at);
    problem.variant.denominator_tile(&mut denominator, &weight, row_max as f32, at);
    f64::from(denominator[0])
}

fn transform_output(problem: &CheckedProblem<'_>, o: &mut [f64], at: RowIndex, [row_max, denominator, lse]: [f64; 3]) {
    if !problem.partial && problem.variant.has(Hook::OutputTransform) {
        let mut rounded: Vec<f32> = o.iter().map(|x| *x as f32).collect();
        let state = RowState { row_max: row_max as f32, denominator: denominator as f32, lse: lse as f32 };
        problem.variant.output_row(&mut rounded, state, at);
        o.iter_mut().zip(rounded).for_each(|(x, y)| *x = f64::from(y));
    }
}
