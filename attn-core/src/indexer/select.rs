//! The choice of the best on the CPU.

use super::{TopKLists, check, rows::read_row};
use crate::ops::slot_mapping::check_entry;
use crate::ops::{Array, OpError};
use crate::tensor::TensorRef;

/// Writes for each row of scores, (rows, keys) in f32, the list of the keys with the largest: as many as a list holds,
/// in rising order. Of equal scores the lower positions come first. `counts` says how many scores of a row there are,
/// as [`index_scores`](super::index_scores) writes it; what is behind is never read.
///
/// NaN and -inf are never chosen; scores beyond the largest finite one count as that.
///
/// # Errors
///
/// A tensor or array that does not fit or is in device memory; a count beyond the row. Nothing is written then.
pub fn select_tokens(scores: &TensorRef<'_>, counts: &Array<'_, i32>, out: &mut TopKLists<'_>) -> Result<(), OpError> {
    select(scores, 2, counts, [0, 0], out)
}

/// Writes for each query token and head of scores, (tokens, heads, blocks) in f32, the list of the blocks with the
/// largest, as [`select_tokens`]. The first `first` blocks and the last `last` ones are always chosen, whatever their
/// score; they count among those of the list.
///
/// # Errors
///
/// More blocks that are always chosen than a list holds; the errors of [`select_tokens`].
pub fn select_pages(
    scores: &TensorRef<'_>,
    counts: &Array<'_, i32>,
    first: usize,
    last: usize,
    out: &mut TopKLists<'_>,
) -> Result<(), OpError> {
    select(scores, 3, counts, [first, last], out)
}

fn select(
    scores: &TensorRef<'_>,
    rank: usize,
    counts: &Array<'_, i32>,
    [first, last]: [usize; 2],
    out: &mut TopKLists<'_>,
) -> Result<(), OpError> {
    let sizes = check::check_select(scores, rank, counts, [first, last], out)?;
    let counts = counts.on_host("counts")?;
    let mut chosen = Vec::with_capacity(sizes.rows);
    for row in 0..sizes.rows {
        let (token, head) = (row / sizes.heads, row % sizes.heads);
        check_entry("counts", token, counts[token].into(), 0, sizes.columns as i64)?;
        let count = counts[token] as usize;
        let mut values = vec![0.0; count];
        read_row("scores", scores, &[token, head][..rank - 1], &mut values)?;
        chosen.push(best(&values, sizes.capacity, [first, last]));
    }
    let (lists, lens) = (out.lists.on_host("lists")?, out.counts.on_host("the lists' counts")?);
    lists.fill(0);
    for (row, list) in chosen.iter().enumerate() {
        for (to, at) in lists[row * sizes.capacity..].iter_mut().zip(list) {
            *to = *at as i32;
        }
    }
    lens.iter_mut().zip(&chosen).for_each(|(len, list)| *len = list.len() as i32);
    Ok(())
}

/// The positions of the best scores, in rising order.
fn best(scores: &[f32], capacity: usize, [first, last]: [usize; 2]) -> Vec<usize> {
    let count = scores.len();
    let always = |at: usize| at < first || at + last >= count;
    let (mut list, mut others): (Vec<usize>, Vec<usize>) = (0..count).partition(|&at| always(at));
    others.retain(|&at| scores[at] > f32::NEG_INFINITY);
    // both zeros are one, and none is NaN
    let value = |at: usize| scores[at].min(f32::MAX) + 0.0;
    others.sort_by(|&a, &b| value(b).total_cmp(&value(a)).then(a.cmp(&b)));
    list.extend(others.into_iter().take(capacity.saturating_sub(list.len())));
    list.sort_unstable();
    list
}
