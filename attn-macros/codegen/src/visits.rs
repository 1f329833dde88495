//! A bound on analyses that follow a value to its definition at each use. What is used twice is visited, and written,
//! twice: without a bound, a hash of a few rounds would have text without end.

use std::cell::Cell;

/// Visits that are left.
pub(crate) struct Visits(Cell<u32>);

impl Visits {
    /// The most visits of an analysis. Stock variants take a few dozen.
    pub(crate) fn most() -> Self {
        Visits(Cell::new(4096))
    }

    /// Counts a visit; `None` when there were too many.
    pub(crate) fn next(&self) -> Option<()> {
        self.0.set(self.0.get().checked_sub(1)?);
        Some(())
    }
}
