//! Masks by the distance of two positions.

use crate::catalogue::{Entry, Formula, Made};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(1, "causal", |_| Made::new("causal", Formula::masked(|at| at.j <= at.i))),
        Entry::new(2, "sliding window", |_| {
            let mask = |at: &crate::catalogue::At| at.j <= at.i && at.i - at.j < 11;
            Made::new("causal + sliding_window(window=11)", Formula::masked(mask))
        }),
    ]
}
