//! Unions of ranges: `d == 1 || d == 2` is `1 <= d && d <= 2`, which is known of tiles that hold both.
//!
//! A condition on a sum of nodes with constants is the set of the sum's values for which it holds. Where a union has
//! fewer ranges than its operands together, the ranges take their place.

use super::interval_fn::IntervalFn as F;
use super::kv_interval::mirrored;
use super::lowering::Lowering;
use super::normal_form::{Id, IntTy, Node};
use super::range_set::{HIGH, LOW, Set, Sum};
use crate::budget;

/// Most ranges of a set, and deepest conditions that are followed.
const MOST_RANGES: usize = 64;
const DEEPEST: usize = 80;

impl Lowering<'_> {
    /// Notes the set of a condition that was made. A union of touching ranges gives way to fewer.
    pub(super) fn merged(&mut self, id: Id) -> Id {
        let Some((set, operands)) = self.set_of(id) else { return id };
        let merges = operands.is_some_and(|before| set.ranges.len() < before);
        let result = if merges { self.tests(&set).unwrap_or(id) } else { id };
        self.sets.insert(id, set.clone());
        self.sets.insert(result, set);
        result
    }

    /// The set of a condition, and of a union the number of its operands' ranges.
    fn set_of(&self, id: Id) -> Option<(Set, Option<usize>)> {
        let known = |id: Id| self.sets.get(&id);
        let Node::Op(name, ids) = self.node_at(id) else { return None };
        let set = match (*name, ids.as_slice()) {
            (F::Lt | F::Le | F::Gt | F::Ge | F::Eq | F::Ne, &[a, b]) => self.comparison(*name, a, b)?,
            (F::BitNot, &[a]) => known(a)?.complement(),
            (F::Both | F::BitAnd, &[a, b]) => known(a)?.complement().union(&known(b)?.complement())?.complement(),
            (F::Either | F::BitOr, &[a, b]) => return counted(known(a)?, known(b)?),
            (F::Select, &[c, a, b]) => match (self.node_at(a), self.node_at(b)) {
                (Node::Bool(true), Node::Bool(false)) => known(c)?.clone(),
                (Node::Bool(false), Node::Bool(true)) => known(c)?.complement(),
                (Node::Bool(true), _) => return counted(known(c)?, known(b)?),
                (_, Node::Bool(true)) => return counted(&known(c)?.complement(), known(a)?),
                (Node::Bool(false), _) => known(c)?.union(&known(b)?.complement())?.complement(),
                (_, Node::Bool(false)) => known(c)?.complement().union(&known(a)?.complement())?.complement(),
                _ => return None,
            },
            _ => return None,
        };
        (set.ranges.len() <= MOST_RANGES).then_some((set, None))
    }

    fn comparison(&self, name: F, a: Id, b: Id) -> Option<Set> {
        let (mut sum, mut constant) = (Sum::new(), 0);
        self.add(a, 1, 0, &mut sum, &mut constant)?;
        self.add(b, -1, 0, &mut sum, &mut constant)?;
        sum.retain(|_, factor| *factor != 0);
        // the difference of several nodes must not wrap where it is computed
        let sizes = sum.iter().map(|(&id, factor)| self.magnitude(id)?.checked_mul(factor.unsigned_abs()));
        let size = sizes.sum::<Option<u64>>();
        let first = *sum.values().next()?;
        if sum.len() > 1 && size.is_none_or(|size| size > i32::MAX as u64) || sum.len() == 1 && first.abs() != 1 {
            return None;
        }
        // sum + constant OP 0, with a positive first factor
        let (name, constant) = if first < 0 {
            sum.values_mut().for_each(|factor| *factor = -*factor);
            (mirrored(name), -constant)
        } else {
            (name, constant)
        };
        let at = -constant;
        let ranges = match name {
            F::Lt => vec![(LOW, at - 1)],
            F::Le => vec![(LOW, at)],
            F::Gt => vec![(at + 1, HIGH)],
            F::Ge => vec![(at, HIGH)],
            F::Eq => vec![(at, at)],
            _ => vec![(LOW, at - 1), (at + 1, HIGH)],
        };
        Some(Set { sum, ranges })
    }

    /// Adds `factor` times a node to a sum, as far as no part of it may wrap.
    fn add(&self, id: Id, factor: i64, depth: usize, sum: &mut Sum, constant: &mut i64) -> Option<()> {
        // a node may be used twice at each level
        if !budget::spend(1) {
            return None;
        }
        let whole = self.magnitude(id).is_some() && depth < DEEPEST;
        match self.node_at(id) {
            Node::Int(n, None | Some(IntTy::I32)) => *constant += factor * i64::try_from(*n).ok()?,
            Node::Op(F::Add, ids) if whole => {
                self.add(ids[0], factor, depth + 1, sum, constant)?;
                self.add(ids[1], factor, depth + 1, sum, constant)?;
            }
            Node::Op(F::Sub, ids) if whole => {
                self.add(ids[0], factor, depth + 1, sum, constant)?;
                self.add(ids[1], -factor, depth + 1, sum, constant)?;
            }
            Node::Op(F::Neg, ids) if whole => self.add(ids[0], -factor, depth + 1, sum, constant)?,
            Node::Op(F::Mul, ids) if whole && self.constant(ids[1]).is_some() => {
                self.add(ids[0], factor.checked_mul(self.constant(ids[1])?)?, depth + 1, sum, constant)?;
            }
            Node::Op(F::Mul, ids) if whole && self.constant(ids[0]).is_some() => {
                self.add(ids[1], factor.checked_mul(self.constant(ids[0])?)?, depth + 1, sum, constant)?;
            }
            Node::Int(..) | Node::LeastI32 => return None,
            _ => *sum.entry(id).or_default() += factor,
        }
        (constant.unsigned_abs() < 1 << 40 && factor.unsigned_abs() < 1 << 40).then_some(())
    }

    fn constant(&self, id: Id) -> Option<i64> {
        match self.node_at(id) {
            Node::Int(n, None | Some(IntTy::I32)) => i64::try_from(*n).ok(),
            Node::Op(F::Neg, ids) => self.constant(ids[0]).map(|n| -n),
            _ => None,
        }
    }

    /// The ranges as comparisons.
    fn tests(&mut self, set: &Set) -> Option<Id> {
        let ends = set.ranges.iter().flat_map(|&(lo, hi)| [lo, hi]).filter(|&end| end != LOW && end != HIGH);
        let (mut least, mut most) = (0, 0);
        ends.into_iter().for_each(|end| (least, most) = (end.min(least), end.max(most)));
        // what is not known to be an i32 may be unsigned, and is not compared with a negative number
        let signed = || set.sum.keys().all(|&id| self.magnitude(id).is_some());
        if most > i64::from(i32::MAX) || least < -i64::from(i32::MAX) || (least < 0 && !signed()) {
            return None;
        }
        let mut terms = set.sum.iter();
        let (&first, &factor) = terms.next()?;
        let mut value = self.times(first, factor);
        for (&id, &factor) in terms {
            let term = self.times(id, factor.abs());
            let function = if factor < 0 { F::Sub } else { F::Add };
            value = self.node(Node::Op(function, vec![value, term]));
        }
        let mut result = None;
        for &(lo, hi) in &set.ranges {
            let from = (lo != LOW).then(|| self.compared(F::Ge, value, lo));
            let to = (hi != HIGH).then(|| self.compared(F::Le, value, hi));
            let inside = match (from, to) {
                (Some(from), Some(to)) => self.node(Node::Op(F::Both, vec![from, to])),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => self.node(Node::Bool(true)),
            };
            result = Some(match result {
                None => inside,
                Some(before) => self.node(Node::Op(F::Either, vec![before, inside])),
            });
        }
        Some(result.unwrap_or_else(|| self.node(Node::Bool(false))))
    }

    fn times(&mut self, id: Id, factor: i64) -> Id {
        if factor == 1 {
            return id;
        }
        let by = self.integer(factor);
        self.node(Node::Op(F::Mul, vec![id, by]))
    }

    fn compared(&mut self, name: F, value: Id, with: i64) -> Id {
        let with = self.integer(with);
        self.node(Node::Op(name, vec![value, with]))
    }

    fn integer(&mut self, n: i64) -> Id {
        let size = self.node(Node::Int(n.unsigned_abs(), None));
        if n < 0 { self.node(Node::Op(F::Neg, vec![size])) } else { size }
    }
}

fn counted(a: &Set, b: &Set) -> Option<(Set, Option<usize>)> {
    let set = a.union(b)?;
    (set.ranges.len() <= MOST_RANGES).then(|| (set, Some(a.ranges.len() + b.ranges.len())))
}
