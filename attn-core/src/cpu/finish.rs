//! From the state of a row over all of its keys to its output: sink, division, output transform.

use super::problem::Sound;
use crate::{
    lang::{Hook, Normalizer, RowIndex, RowState},
    state::{State, exp_below},
};

impl Sound<'_> {
    /// Finishes a row in place, and gives its log-sum-exp.
    pub(super) fn finish(&self, state: State, o: &mut [f32], at: RowIndex) -> f32 {
        let (scale, state) = match self.variant.normalizer() {
            Normalizer::Plain { divide } => finish_plain(state.denominator, divide),
            _ if self.variant.has(Hook::SinkLogit) => finish_softmax(state, self.variant.sink_logit(at)),
            _ => finish_softmax(state, f32::NEG_INFINITY),
        };
        o.iter_mut().for_each(|x| *x *= scale);
        if self.variant.has(Hook::OutputTransform) {
            self.variant.output_row(o, state, at);
        }
        state.lse
    }
}

/// What the sums are multiplied by, and the state that `output_transform` sees. The sink is a key without a value: it
/// enters the maximum and the denominator, never the output.
fn finish_softmax(state: State, sink: f32) -> (f32, RowState) {
    let row_max = state.row_max.max(sink);
    if row_max == f32::NEG_INFINITY {
        return (0.0, RowState { row_max, denominator: 0.0, lse: row_max });
    }
    let rescale = exp_below(state.row_max, row_max);
    let denominator = state.denominator * rescale + exp_below(sink, row_max);
    (rescale / denominator, RowState { row_max, denominator, lse: row_max + denominator.ln() })
}

/// Without a maximum the log-sum-exp is the logarithm of the sum of the weights.
fn finish_plain(sum: f32, divide: bool) -> (f32, RowState) {
    let none = sum == 0.0;
    let scale = match (divide, none) {
        (false, _) => 1.0,
        (true, true) => 0.0,
        (true, false) => 1.0 / sum,
    };
    let lse = if none { f32::NEG_INFINITY } else { sum.ln() };
    (scale, RowState { row_max: 0.0, denominator: sum, lse })
}
