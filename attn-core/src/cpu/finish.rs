//! From the state of a row over all of its keys to its output: sink, division, output transform.

use super::problem::Sound;
use crate::{
    expr::Variant,
    lang::{Hook, LogitIndex, Normalizer, RowIndex, RowState},
    state::{State, exp_below},
};

impl Sound<'_> {
    /// Finishes a row in place, and gives its log-sum-exp; of a row that stays unfinished, divides it alone.
    pub(super) fn finish(&self, state: State, o: &mut [f32], at: RowIndex) -> f32 {
        let has = |hook| !self.unfinished && self.variant.has(hook);
        let (sink, transforms) = (has(Hook::SinkLogit), has(Hook::OutputTransform));
        let sink = if sink { self.variant.sink_logit(at) } else { f32::NEG_INFINITY };
        let (scale, state) = match self.normalizer {
            Normalizer::Plain { divide } => finish_plain(state.denominator, divide),
            _ => finish_with_sink(self.variant, state, sink, at),
        };
        o.iter_mut().for_each(|x| *x *= scale);
        if transforms {
            self.variant.output_row(o, state, at);
        }
        state.lse
    }
}

/// Finishes a row that was divided by its own denominator: [`crate::state::finish_state`].
pub(crate) fn finish_divided(variant: &Variant, o: &mut [f32], lse: f32, at: RowIndex) -> f32 {
    let state = match variant.normalizer() {
        Normalizer::Plain { .. } => RowState { row_max: 0.0, denominator: lse.exp(), lse },
        _ => {
            let sink = if variant.has(Hook::SinkLogit) { variant.sink_logit(at) } else { f32::NEG_INFINITY };
            // as if one logit had been all of the row
            let denominator = if lse == f32::NEG_INFINITY { 0.0 } else { 1.0 };
            let (scale, state) = finish_with_sink(variant, State { row_max: lse, denominator }, sink, at);
            o.iter_mut().for_each(|x| *x *= scale);
            state
        }
    };
    if variant.has(Hook::OutputTransform) {
        variant.output_row(o, state, at);
    }
    state.lse
}

/// Under a running maximum.
fn finish_with_sink(variant: &Variant, state: State, sink: f32, at: RowIndex) -> (f32, RowState) {
    if variant.normalizer() != Normalizer::MaxScaled {
        return finish_scaled(state, sink, f32::NEG_INFINITY, |row_max| exp_below(sink, row_max));
    }
    finish_scaled(state, sink, variant.max_floor(), |row_max| {
        let at = LogitIndex { row: at, kv_pos: -1, kv_token: -1, kv_slot: 0 };
        let (mut weight, mut denominator) = ([sink], [sink]);
        variant.weight_tile(&mut weight, row_max, at);
        variant.denominator_tile(&mut denominator, &weight, row_max, at);
        denominator[0]
    })
}

/// What the sums are multiplied by, and the state that `output_transform` sees. The sink is a key without a value: it
/// enters the maximum and the denominator (`share` of it, given the maximum), never the output.
fn finish_scaled(state: State, sink: f32, floor: f32, share: impl Fn(f32) -> f32) -> (f32, RowState) {
    let has_sink = sink != f32::NEG_INFINITY;
    let row_max = if has_sink { state.row_max.max(sink).max(floor) } else { state.row_max };
    if row_max == f32::NEG_INFINITY {
        return (0.0, RowState { row_max, denominator: 0.0, lse: row_max });
    }
    let rescale = exp_below(state.row_max, row_max);
    let denominator = state.denominator * rescale + if has_sink { share(row_max) } else { 0.0 };
    // weights of one's own may all be 0
    let scale = if denominator == 0.0 { 0.0 } else { rescale / denominator };
    (scale, RowState { row_max, denominator, lse: row_max + denominator.ln() })
}

/// Without a maximum the log-sum-exp is the logarithm of the sum of the weights.
fn finish_plain(sum: f32, divide: bool) -> (f32, RowState) {
    let none = sum == 0.0;
    let scale = match (divide, none) {
        (false, _) => 1.0,
        (true, true) => 0.0,
        (true, false) => 1.0 / sum,
    };
    // weights may be negative; a NaN must show
    let lse = if sum <= 0.0 { f32::NEG_INFINITY } else { sum.ln() };
    (scale, RowState { row_max: 0.0, denominator: sum, lse })
}
