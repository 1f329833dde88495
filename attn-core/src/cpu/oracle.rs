//! The reference: attention by its definition, in plain loops that accumulate in f64.
//!
//! It shares with the working path only how rows are read and what the index words are. There are no tiles, no splits, no
//! running maximum, and `tile_class` is never asked.

use half::{bf16, f16};
use rayon::prelude::*;

use super::{
    CpuError, Problem,
    math::{Simd, axpy64, dot64},
    problem::Sound,
};
use crate::dtype::Dtype;
use crate::lang::{Hook, LogitIndex, Normalizer, RowIndex, RowState};

/// The result of [`oracle`].
#[derive(Clone, Debug, PartialEq)]
pub struct OracleOut {
    /// (qo tokens, qo heads, head_dim), contiguous.
    pub o: Vec<f64>,
    /// (qo tokens, qo heads), contiguous: log-sum-exp in natural log.
    pub lse: Vec<f64>,
}

/// To what rows are rounded after `query_transform` and `key_transform`, where a variant has these hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowRounding {
    /// Not at all: attention by its definition.
    #[default]
    None,
    /// To the element types of q and k, as kernels do that multiply rows on tensor cores.
    Elements,
}

/// Computes attention in f64. Hooks are in f32, so what they see is rounded to f32 once, and only where the variant
/// has the hook.
///
/// # Errors
///
/// As [`run`](super::run).
pub fn oracle(problem: &Problem<'_>) -> Result<OracleOut, CpuError> {
    oracle_with(problem, RowRounding::None)
}

/// As [`oracle`], with the rounding of transformed rows that a kernel documents.
///
/// # Errors
///
/// As [`run`](super::run).
pub fn oracle_with(problem: &Problem<'_>, rounding: RowRounding) -> Result<OracleOut, CpuError> {
    let dtypes = problem.dtypes();
    let rounds = |hook| rounding == RowRounding::Elements && problem.variant.has(hook);
    let round_q = rounds(Hook::QueryTransform).then_some(dtypes.qo);
    let round_k = rounds(Hook::KeyTransform).then_some(dtypes.kv);
    let sound = problem.sound()?;
    let (heads, layout) = (sound.heads, sound.layout);
    let (kv_heads, group) = (heads.kv as usize, heads.group() as usize);
    let mut out = OracleOut {
        o: vec![0.0; layout.qo_tokens() * heads.qo as usize * heads.head_dim as usize],
        lse: vec![f64::NEG_INFINITY; layout.qo_tokens() * heads.qo as usize],
    };
    let finished: Vec<_> = (0..layout.batch() * kv_heads)
        .into_par_iter()
        .map(|task| {
            let (request, kv_head) = (task / kv_heads, task % kv_heads);
            let rows = layout.qo_len(request) * group;
            let keys =
                Keys::load(&sound, request, if rows == 0 { 0 } else { layout.kv_len(request) }, kv_head, round_k);
            let row =
                |packed| (sound.row_index(request, kv_head, packed), keys.attend(request, kv_head, packed, round_q));
            (0..rows).into_par_iter().map(row).collect::<Vec<_>>()
        })
        .collect();
    for (at, (row, lse)) in finished.into_iter().flatten() {
        let index = at.qo_token as usize * heads.qo as usize + at.qo_head as usize;
        out.o[index * row.len()..][..row.len()].copy_from_slice(&row);
        out.lse[index] = lse;
    }
    Ok(out)
}

fn round_row(row: &mut [f32], to: Option<Dtype>) {
    match to {
        Some(Dtype::F16) => row.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32()),
        Some(Dtype::Bf16) => row.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32()),
        Some(Dtype::F32) | None => {}
    }
}

/// The keys (transformed) and values of one request and one KV head.
struct Keys<'a> {
    problem: &'a Sound<'a>,
    simd: Simd,
    len: usize,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl<'a> Keys<'a> {
    fn load(problem: &'a Sound<'a>, request: usize, len: usize, kv_head: usize, round: Option<Dtype>) -> Self {
        let head_dim = problem.heads.head_dim as usize;
        let (mut k, mut v) = (vec![0f32; len * head_dim], vec![0f32; len * head_dim]);
        k.par_chunks_exact_mut(head_dim).zip(v.par_chunks_exact_mut(head_dim)).enumerate().for_each(|(key, (k, v))| {
            problem.key(request, key, kv_head, k);
            round_row(k, round);
            problem.v.read(request, key, kv_head, v);
        });
        Keys { problem, simd: Simd::detect(), len, k, v }
    }

    /// The output of one query row, and its log-sum-exp.
    fn attend(&self, request: usize, kv_head: usize, packed: usize, round: Option<Dtype>) -> (Vec<f64>, f64) {
        let (problem, variant) = (self.problem, self.problem.variant);
        let head_dim = problem.heads.head_dim as usize;
        let at = problem.row_index(request, kv_head, packed);
        let from = problem.logit_index(at, 0);
        let mut keep = vec![true; self.len];
        variant.mask_tile(&mut keep, from);
        let mut q = vec![0f32; head_dim];
        problem.query(request, kv_head, packed, &mut q);
        round_row(&mut q, round);
        let q: Vec<f64> = q.into_iter().map(f64::from).collect();
        let logits: Vec<f64> = (self.k.chunks_exact(head_dim).zip(&keep))
            .map(|(k, keep)| if *keep { dot64(self.simd, &q, k) * f64::from(problem.sm_scale) } else { 0.0 })
            .collect();
        let logits = self.hooked(logits, from);
        let sink = match variant.has(Hook::SinkLogit) {
            true => f64::from(variant.sink_logit(at)),
            false => f64::NEG_INFINITY,
        };

        let normalizer = variant.normalizer();
        let attended = || logits.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(logit, _)| *logit);
        let row_max = match normalizer {
            Normalizer::Plain { .. } => 0.0,
            _ => attended().fold(sink, f64::max),
        };
        // a row of NaN has no maximum, but is not empty
        let subtract = if row_max == f64::NEG_INFINITY { 0.0 } else { row_max };
        let weight = |logit: f64| match normalizer {
            Normalizer::Plain { .. } => logit,
            _ => (logit - subtract).exp(),
        };
        let mut denominator = if sink == f64::NEG_INFINITY { 0.0 } else { weight(sink) };
        denominator += attended().map(weight).sum::<f64>();
        let mut o = vec![0f64; head_dim];
        for ((logit, _), v) in
            logits.iter().zip(&keep).zip(self.v.chunks_exact(head_dim)).filter(|((_, keep), _)| **keep)
        {
            axpy64(self.simd, weight(*logit), v, &mut o);
        }
        if normalizer != (Normalizer::Plain { divide: false }) {
            let divisor = if denominator == 0.0 { 1.0 } else { denominator };
            o.iter_mut().for_each(|x| *x /= divisor);
        }
        let lse = if denominator == 0.0 { f64::NEG_INFINITY } else { subtract + denominator.ln() };
        self.transform_output(&mut o, at, [row_max, denominator, lse]);
        (o, lse)
    }

    /// Logits after `logits_transform`, and under a plain normaliser the weights.
    fn hooked(&self, logits: Vec<f64>, at: LogitIndex) -> Vec<f64> {
        let variant = self.problem.variant;
        let plain = matches!(variant.normalizer(), Normalizer::Plain { .. });
        if !plain && !variant.has(Hook::LogitsTransform) {
            return logits;
        }
        let mut rounded: Vec<f32> = logits.into_iter().map(|logit| logit as f32).collect();
        variant.logits_tile(&mut rounded, at);
        if plain {
            variant.weight_tile(&mut rounded, 0.0, at);
        }
        rounded.into_iter().map(f64::from).collect()
    }

    fn transform_output(&self, o: &mut [f64], at: RowIndex, [row_max, denominator, lse]: [f64; 3]) {
        let variant = self.problem.variant;
        if variant.has(Hook::OutputTransform) {
            let mut rounded: Vec<f32> = o.iter().map(|x| *x as f32).collect();
            let state = RowState { row_max: row_max as f32, denominator: denominator as f32, lse: lse as f32 };
            variant.output_row(&mut rounded, state, at);
            o.iter_mut().zip(rounded).for_each(|(x, y)| *x = f64::from(y));
        }
    }
}
