//! Finalizes rows in a run of the CPU backend: from the state over all keys to the output.

use super::checked_problem::CheckedProblem;
use crate::lang::{Hook, Normalizer, RowIndex};
use crate::state::{State, finalize_plain, finalize_with_sink};

impl CheckedProblem<'_> {
    /// Finalizes a row in place and returns its log-sum-exp. A row of a partial run is only divided by its denominator.
    pub(super) fn finalize(&self, state: State, o: &mut [f32], at: RowIndex) -> f32 {
        let has = |hook| !self.partial && self.variant.has(hook);
        let (sink, transforms) = (has(Hook::SinkLogit), has(Hook::OutputTransform));
        let sink = if sink { self.variant.sink_logit(at) } else { f32::NEG_INFINITY };
        let (scale, state) = match self.normalizer {
            Normalizer::Plain { divide } => finalize_plain(state.denominator, divide),
            _ => finalize_with_sink(self.variant, state, sink, at),
        };
        o.iter_mut().for_each(|x| *x *= scale);
        if transforms {
            self.variant.output_row(o, state, at);
        }
        state.lse
    }
}
