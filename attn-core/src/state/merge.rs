//! Merges two partial states (O, LSE) over disjoint keys.

use super::row_state::exp_below;

/// Merges two partial states of one row over disjoint sets of keys: `o` becomes the output over both sets, and the
/// log-sum-exp over both is returned. `o` and `other_o` are normalised outputs of the same length; `lse` and
/// `other_lse` are natural logarithms.
///
/// A state over no keys (`lse = -inf`) is the identity, whatever its output holds. Merging is commutative, and
/// associative up to rounding. At most one of the states may contain the sink, or it counts twice. Undivided outputs
/// (`Normalizer::Plain { divide: false }`) are added instead.
///
/// ```
/// use attn_core::state::merge_state;
/// let mut o = [1.0, 0.0];
/// let lse = merge_state(&mut o, 0.0, &[0.0, 1.0], 0.0);
/// assert_eq!(o, [0.5, 0.5]);
/// assert!((lse - 2f32.ln()).abs() < 1e-6);
/// ```
#[must_use = "the outputs are merged in place, the log-sum-exp is returned"]
pub fn merge_state(o: &mut [f32], lse: f32, other_o: &[f32], other_lse: f32) -> f32 {
    let max = lse.max(other_lse);
    let (first, second) = (exp_below(lse, max), exp_below(other_lse, max));
    let sum = first + second;
    match (first == 0.0, second == 0.0) {
        (_, true) => {}
        (true, false) => o.iter_mut().zip(other_o).for_each(|(x, y)| *x = *y),
        (false, false) => {
            let (first, second) = (first / sum, second / sum);
            o.iter_mut().zip(other_o).for_each(|(x, y)| *x = *x * first + *y * second);
        }
    }
    if sum == 0.0 { f32::NEG_INFINITY } else { max + sum.ln() }
}
