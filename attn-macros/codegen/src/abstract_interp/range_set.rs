//! Sets of integers as ranges.

use std::collections::BTreeMap;

use super::normal_form::Id;

/// Nodes and their factors.
pub(super) type Sum = BTreeMap<Id, i64>;

/// The values of a sum for which a condition holds: sorted ranges with gaps between them.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) sum: Sum,
    pub(super) ranges: Vec<(i64, i64)>,
}

/// Ends of ranges that are open.
pub(super) const LOW: i64 = i64::MIN / 4;
pub(super) const HIGH: i64 = i64::MAX / 4;

impl Set {
    /// The other values.
    pub(super) fn complement(&self) -> Set {
        let (mut ranges, mut from) = (Vec::new(), LOW);
        for &(lo, hi) in &self.ranges {
            if lo > from {
                ranges.push((from, lo - 1));
            }
            from = hi.saturating_add(1);
        }
        if from <= HIGH {
            ranges.push((from, HIGH));
        }
        Set { sum: self.sum.clone(), ranges }
    }

    /// The union of two sets of the same sum.
    pub(super) fn union(&self, other: &Set) -> Option<Set> {
        if self.sum != other.sum {
            return None;
        }
        let mut all: Vec<(i64, i64)> = self.ranges.iter().chain(&other.ranges).copied().collect();
        all.sort_unstable();
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for (lo, hi) in all {
            match ranges.last_mut() {
                Some((_, last)) if lo <= last.saturating_add(1) => *last = (*last).max(hi),
                _ => ranges.push((lo, hi)),
            }
        }
        Some(Set { sum: self.sum.clone(), ranges })
    }
}
