//! Finalizes a row: from its state over all keys to its output, by sink, division and output transform.

use super::{State, exp_below};
use crate::expr::Variant;
use crate::lang::{Hook, LogitIndex, Normalizer, RowIndex, RowState};

/// Finalizes a row whose partial state is over all of its keys, as a partial run or a merge of such states leaves it:
/// applies the sink and `output_transform`. `o` is the output divided by its own denominator (or undivided, if the
/// normaliser does not divide), `lse` its natural log-sum-exp, `at` the coordinates of the row. Afterwards `o` is what
/// a run over all keys would have written, up to rounding. Returns the final log-sum-exp.
///
/// `output_transform` gets the final log-sum-exp. The row maximum is no longer known: in its place it gets the
/// log-sum-exp before the sink (or the sink, if that is larger), and a denominator relative to it.
///
/// ```
/// use attn_core::{Variant, lang::RowIndex, state::finalize};
/// // without sink or transform a state is finished as it is
/// let mut o = [0.5, 0.25];
/// let lse = finalize(&Variant::full(), &mut o, 1.5, RowIndex::default());
/// assert_eq!((o, lse), ([0.5, 0.25], 1.5));
/// ```
#[must_use = "the output is finished in place, the log-sum-exp is returned"]
pub fn finalize(variant: &Variant, o: &mut [f32], lse: f32, at: RowIndex) -> f32 {
    let state = match variant.normalizer() {
        Normalizer::Plain { .. } => RowState { row_max: 0.0, denominator: lse.exp(), lse },
        _ => {
            let sink = if variant.has(Hook::SinkLogit) { variant.sink_logit(at) } else { f32::NEG_INFINITY };
            // treats the row as one logit, equal to its log-sum-exp: without keys it weighs nothing beside a sink
            let (scale, state) = finalize_with_sink(variant, State { row_max: lse, denominator: 1.0 }, sink, at);
            o.iter_mut().for_each(|x| *x *= scale);
            state
        }
    };
    if variant.has(Hook::OutputTransform) {
        variant.output_row(o, state, at);
    }
    state.lse
}

/// Finalizes a row under a normaliser with a row maximum. Returns the factor for the output, and the final state.
pub(crate) fn finalize_with_sink(variant: &Variant, state: State, sink: f32, at: RowIndex) -> (f32, RowState) {
    if variant.normalizer() != Normalizer::MaxScaled {
        return finalize_scaled(state, sink, f32::NEG_INFINITY, |row_max| exp_below(sink, row_max));
    }
    finalize_scaled(state, sink, variant.max_floor(), |row_max| {
        let at = LogitIndex { row: at, kv_pos: -1, kv_token: -1, kv_slot: 0 };
        let (mut weight, mut denominator) = ([sink], [sink]);
        variant.weight_tile(&mut weight, row_max, at);
        variant.denominator_tile(&mut denominator, &weight, row_max, at);
        denominator[0]
    })
}

/// The factor for the output, and the state that `output_transform` gets. The sink is a key without a value: it enters
/// the row maximum and the denominator (by `share(row_max)`), never the output.
fn finalize_scaled(state: State, sink: f32, floor: f32, share: impl Fn(f32) -> f32) -> (f32, RowState) {
    let has_sink = sink != f32::NEG_INFINITY;
    let row_max = if has_sink { state.row_max.max(sink).max(floor) } else { state.row_max };
    if row_max == f32::NEG_INFINITY {
        return (0.0, RowState { row_max, denominator: 0.0, lse: row_max });
    }
    let rescale = exp_below(state.row_max, row_max);
    let denominator = state.denominator * rescale + if has_sink { share(row_max) } else { 0.0 };
    // a variant's own weights may all be 0
    let scale = if denominator == 0.0 { 0.0 } else { rescale / denominator };
    (scale, RowState { row_max, denominator, lse: row_max + denominator.ln() })
}

/// Finalizes a row under a normaliser without a row maximum: the log-sum-exp is the logarithm of the sum of weights.
pub(crate) fn finalize_plain(sum: f32, divide: bool) -> (f32, RowState) {
    let none = sum == 0.0;
    let scale = match (divide, none) {
        (false, _) => 1.0,
        (true, true) => 0.0,
        (true, false) => 1.0 / sum,
    };
    // weights may be negative; a NaN must propagate
    let lse = if sum <= 0.0 { f32::NEG_INFINITY } else { sum.ln() };
    (scale, RowState { row_max: 0.0, denominator: sum, lse })
}
