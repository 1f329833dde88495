//! The online softmax step of one query row and one block of keys: S to P. Applies the logits transform, the mask and
//! the normaliser.

use super::checked_problem::CheckedProblem;
use super::key_run::KeyRun;
use super::math::{Simd, exp_sum, scale};
use crate::lang::{Normalizer, RowIndex};
use crate::state::{State, exp_below};

/// One query row against a block of keys.
pub(super) struct RowLogits<'a> {
    pub(super) problem: &'a CheckedProblem<'a>,
    pub(super) simd: Simd,
    pub(super) at: RowIndex,
    pub(super) runs: &'a [KeyRun],
    /// `[columns]`: S (`q . k`) before the step, P (the weights) after it.
    pub(super) logits: &'a mut [f32],
    /// Buffer for the mask; `None` if no logit of the block is masked.
    pub(super) keep: Option<&'a mut [bool]>,
    /// Buffer for one denominator term for each key.
    pub(super) denominators: &'a mut [f32],
}

impl RowLogits<'_> {
    /// Turns S into P, and updates the row's state and rescales its output `o`.
    pub(super) fn softmax_step(&mut self, state: &mut State, o: &mut [f32]) {
        let (problem, row, variant) = (self.problem, self.at, self.problem.variant);
        let at = |run: &KeyRun| problem.run_index(row, run);
        scale(self.simd, self.logits, problem.sm_scale);
        if problem.has_logits_transform {
            each(self.runs, self.logits, |run, logits| variant.logits_tile(logits, at(run)));
        }
        if let Some(keep) = &mut self.keep {
            keep.fill(true);
            each(self.runs, keep, |run, keep| variant.mask_tile(keep, at(run)));
        }
        match problem.normalizer {
            Normalizer::Softmax => self.softmax(state, o),
            Normalizer::MaxScaled => self.max_scaled(state, o),
            Normalizer::Plain { .. } => self.plain(state),
        }
    }

    /// `exp(logit - row_max)`.
    fn softmax(&mut self, state: &mut State, o: &mut [f32]) {
        self.replace_masked(f32::NEG_INFINITY);
        let logits = &mut *self.logits;
        let mut row_max = logits.iter().fold(state.row_max, |max, logit| max.max(*logit));
        if row_max == f32::NEG_INFINITY {
            if !logits.iter().any(|logit| logit.is_nan()) {
                logits.fill(0.0);
                return;
            }
            row_max = 0.0; // an attended NaN must propagate
        }
        let rescale = exp_below(state.row_max, row_max);
        let sum = exp_sum(self.simd, logits, row_max);
        *state = State { row_max, denominator: state.denominator * rescale + sum };
        if rescale != 1.0 {
            scale(self.simd, o, rescale);
        }
    }

    /// The variant's own weights and denominators, relative to a running maximum.
    fn max_scaled(&mut self, state: &mut State, o: &mut [f32]) {
        let attended = |i: usize| self.keep.as_ref().is_none_or(|keep| keep[i]);
        let logits = || self.logits.iter().enumerate().filter(|(i, _)| attended(*i)).map(|(_, logit)| *logit);
        if logits().next().is_none() {
            self.logits.fill(0.0);
            return;
        }
        let mut row_max = logits().fold(state.row_max.max(self.problem.max_floor), f32::max);
        if row_max == f32::NEG_INFINITY {
            if !logits().any(f32::is_nan) {
                self.logits.fill(0.0);
                return;
            }
            row_max = 0.0;
        }
        let (problem, row, variant) = (self.problem, self.at, self.problem.variant);
        let at = |run: &KeyRun| problem.run_index(row, run);
        self.denominators.copy_from_slice(self.logits);
        each(self.runs, self.logits, |run, weights| variant.weight_tile(weights, row_max, at(run)));
        if problem.has_denominator {
            let weights = &*self.logits;
            each(self.runs, self.denominators, |run, denominators| {
                variant.denominator_tile(denominators, &weights[run.column..][..run.len], row_max, at(run));
            });
        } else {
            self.denominators.copy_from_slice(self.logits);
        }
        self.replace_masked(0.0);
        let keep = self.keep.as_deref();
        let counted = self.denominators.iter().enumerate().filter(|(i, _)| keep.is_none_or(|keep| keep[*i]));
        let sum: f32 = counted.map(|(_, x)| *x).sum();
        let rescale = exp_below(state.row_max, row_max);
        *state = State { row_max, denominator: state.denominator * rescale + sum };
        if rescale != 1.0 {
            scale(self.simd, o, rescale);
        }
    }

    /// The variant's own weights, without a maximum.
    fn plain(&mut self, state: &mut State) {
        let (problem, row, variant) = (self.problem, self.at, self.problem.variant);
        each(self.runs, self.logits, |run, weights| {
            variant.weight_tile(weights, 0.0, problem.run_index(row, run));
        });
        self.replace_masked(0.0);
        let sum: f32 = self.logits.iter().sum();
        *state = State { row_max: 0.0, denominator: state.denominator + sum };
    }

    /// Replaces the values of masked logits, whatever a hook made of them.
    fn replace_masked(&mut self, by: f32) {
        if let Some(keep) = self.keep.as_deref() {
            for (x, keep) in self.logits.iter_mut().zip(keep) {
                *x = if *keep { *x } else { by };
            }
        }
    }
}

/// Calls `f` with each run and its columns of `row`.
fn each<T>(runs: &[KeyRun], row: &mut [T], mut f: impl FnMut(&KeyRun, &mut [T])) {
    for run in runs {
        f(run, &mut row[run.column..][..run.len]);
    }
}
