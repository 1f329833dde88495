//! What sampling means for one row: masses of tokens, which of them filters keep, and the draw.

use std::{cell::OnceCell, cmp::Ordering};

use super::FilterOrder;
use super::blocks::{Blocks, Cut, Tokens};
use super::fixed_point::{
    log_prob, mass_of_logit, mass_of_prob, min_p_logit, prob_of_logit, prob_of_prob, prob_scale, share_of,
    share_target, temper,
};
use crate::random;

/// Tokens that rejection draws at a time.
pub const CANDIDATES: usize = 16;

/// Random numbers of a position from candidate to candidate. Those between are for
/// [verification](super::verify_chain).
pub const DRAWS_OF_CANDIDATE: u32 = 16;

/// A row's parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filters {
    pub(super) top_k: i32,
    pub(super) top_p: f32,
    pub(super) min_p: f32,
    pub(super) order: FilterOrder,
}

/// A row of tokens and their probabilities.
pub(super) struct Row<'a> {
    pub(super) of: Tokens<'a>,
    temperature: f32,
    all: OnceCell<Blocks>,
}

impl<'a> Row<'a> {
    /// A row of logits, to which penalties and mask have been applied.
    pub(super) fn of_logits(values: &'a mut [f32], temperature: f32) -> Self {
        let greatest = settle_infinities(values, 0.0, f32::NEG_INFINITY);
        let of = Tokens { values, greatest, temper: Some(temper(temperature)) };
        Row { of, temperature, all: OnceCell::new() }
    }

    /// A row of probabilities, which need not sum to 1.
    pub(super) fn of_probs(values: &'a mut [f32]) -> Self {
        let greatest = settle_infinities(values, 1.0, 0.0);
        Row { of: Tokens { values, greatest, temper: None }, temperature: 1.0, all: OnceCell::new() }
    }

    /// The blocks of all tokens.
    fn all(&self) -> &Blocks {
        self.all.get_or_init(|| Blocks::of(&self.of, Cut::ALL))
    }

    /// All masses together, by blocks.
    pub(super) fn sum(&self) -> u64 {
        self.all().sum
    }

    /// The mass of a token.
    fn mass(&self, id: usize) -> u64 {
        match self.of.temper {
            Some(temper) => mass_of_logit(self.of.values[id] - self.of.greatest, temper.to_log2),
            None => mass_of_prob(self.of.values[id], self.of.greatest),
        }
    }

    /// The allowed tokens by their ids.
    fn allowed(&self) -> Vec<usize> {
        let least = if self.of.temper.is_some() { f32::NEG_INFINITY } else { 0.0 };
        (0..self.of.values.len()).filter(|&id| self.of.values[id] > least).collect()
    }

    /// The likeliest first; of equal ones the lower id.
    fn rank(&self, a: usize, b: usize) -> Ordering {
        self.of.values[b].partial_cmp(&self.of.values[a]).unwrap_or(Ordering::Equal).then(a.cmp(&b))
    }

    /// Moves the `count` likeliest of `tokens` to the front, in any order. No vocabulary is sorted: few are wanted.
    fn select<'t>(&self, tokens: &'t mut [usize], count: usize) -> &'t mut [usize] {
        match (count, tokens.len()) {
            (0, _) => &mut [],
            (1, 2..) => {
                let first = tokens.iter().enumerate().min_by(|a, b| self.rank(*a.1, *b.1)).map_or(0, |(at, _)| at);
                tokens.swap(0, first);
                &mut tokens[..1]
            }
            (count, len) if count < len => {
                tokens.select_nth_unstable_by(count - 1, |&a, &b| self.rank(a, b));
                &mut tokens[..count]
            }
            _ => tokens,
        }
    }

    fn truncate(&self, tokens: &mut Vec<usize>, count: usize) {
        let kept = self.select(tokens, count).len();
        tokens.truncate(kept);
    }

    /// The tokens that the filters keep.
    pub(super) fn keep(&self, filters: &Filters) -> Kept<'_> {
        let greedy = self.of.temper.is_some_and(|temper| temper.greedy);
        // NaN is off
        let on = filters.top_k > 0 || filters.top_p < 1.0 || filters.min_p > 0.0;
        if !on && !greedy {
            return Kept { row: self, draw: Draw::Row, tokens: None, sum: self.sum() };
        }
        let mut tokens = self.allowed();
        if greedy {
            self.truncate(&mut tokens, 1);
        }
        if filters.top_k > 0 {
            self.truncate(&mut tokens, filters.top_k as usize);
        }
        if filters.top_p < 1.0 {
            let of = match filters.order {
                FilterOrder::TopKFirst if filters.top_k > 0 => self.masses(&tokens),
                _ => self.sum(),
            };
            let count = self.top_p(&mut tokens, share_target(of, filters.top_p));
            tokens.truncate(count);
        }
        if filters.min_p > 0.0 {
            tokens.retain(|&id| self.above_min_p(id, filters.min_p));
        }
        tokens.sort_unstable();
        let draw = if greedy || filters.top_k > 0 { Draw::Kept } else { Draw::Rejection };
        Kept { row: self, draw, sum: self.masses(&tokens), tokens: Some(tokens) }
    }

    /// Moves the likeliest tokens whose mass reaches `target` to the front; returns how many they are. They are sorted
    /// in parts that grow, since most rows keep few.
    fn top_p(&self, tokens: &mut [usize], target: u64) -> usize {
        let (mut kept, mut mass, mut part) = (0, 0, 64);
        while kept < tokens.len() {
            let next = self.select(&mut tokens[kept..], part);
            next.sort_unstable_by(|&a, &b| self.rank(a, b));
            for &mut id in next {
                if mass >= target {
                    return kept;
                }
                mass += self.mass(id);
                kept += 1;
            }
            part *= 8;
        }
        kept
    }

    fn above_min_p(&self, id: usize, min_p: f32) -> bool {
        match self.of.temper {
            Some(_) => self.of.values[id] >= min_p_logit(min_p, self.temperature, self.of.greatest),
            None => self.of.values[id] >= min_p.min(1.0) * self.of.greatest,
        }
    }

    fn masses(&self, tokens: &[usize]) -> u64 {
        tokens.iter().map(|&id| self.mass(id)).sum()
    }

    /// The cut before a token, in the order of the row.
    fn before(&self, id: usize) -> Cut {
        Cut { value: self.of.values[id], end: id }
    }

    /// The probability of a token among masses with this sum.
    fn prob(&self, id: usize, sum: u64) -> f32 {
        match self.of.temper {
            Some(temper) => prob_of_logit(self.of.values[id] - self.of.greatest, temper.to_log2, prob_scale(sum)),
            None => prob_of_prob(self.of.values[id], self.of.greatest, prob_scale(sum)),
        }
    }

    /// The natural log of that.
    pub(super) fn log_prob(&self, id: usize, sum: u64) -> f32 {
        match self.of.temper {
            Some(temper) => log_prob(self.of.values[id] - self.of.greatest, temper.inverse, sum),
            None => share_of(self.mass(id), sum),
        }
    }

    /// The likeliest tokens that have mass, in falling order.
    pub(super) fn likeliest(&self, count: usize) -> Vec<usize> {
        let mut tokens = self.allowed();
        tokens.retain(|&id| self.mass(id) > 0);
        self.truncate(&mut tokens, count);
        tokens.sort_unstable_by(|&a, &b| self.rank(a, b));
        tokens
    }
}

/// How a token is drawn.
#[derive(Clone, Copy)]
enum Draw {
    /// From all tokens, which are kept.
    Row,
    /// From the tokens that are kept.
    Kept,
    /// From the row, until a token is kept.
    Rejection,
}

/// What filters keep of a row.
pub(super) struct Kept<'a> {
    row: &'a Row<'a>,
    draw: Draw,
    pub(super) sum: u64,
    /// The kept tokens by their ids, those without mass too; `None`: all.
    tokens: Option<Vec<usize>>,
}

impl Kept<'_> {
    /// The token that random numbers draw. `None` for a row without mass.
    pub(super) fn draw(&self, seed: u64, position: i64) -> Option<usize> {
        let (row, random) = (self.row, |draw| random::bits64(seed, position as u64, draw));
        match self.draw {
            Draw::Row => row.all().draw(&row.of, random(0)),
            Draw::Kept => {
                let tokens = self.tokens.as_ref()?;
                if let &[id] = &tokens[..] {
                    return (self.sum > 0).then_some(id);
                }
                let last = tokens.iter().copied().max_by(|&a, &b| row.rank(a, b))?;
                let cut = Cut { value: row.of.values[last], end: last + 1 };
                Blocks::of(&row.of, cut).draw(&row.of, random(0))
            }
            Draw::Rejection => self.draw_by_rejection(random),
        }
    }

    fn draw_by_rejection(&self, random: impl Fn(u32) -> u64) -> Option<usize> {
        let (row, kept) = (self.row, self.tokens.as_ref()?);
        let (mut blocks, mut draws) = (None, 0..);
        loop {
            let candidates = draws.by_ref().take(CANDIDATES);
            let of = blocks.as_ref().unwrap_or(row.all());
            let candidates: Option<Vec<usize>> =
                candidates.map(|draw| of.draw(&row.of, random(draw * DRAWS_OF_CANDIDATE))).collect();
            let candidates = candidates?;
            if let Some(&id) = candidates.iter().find(|&id| kept.binary_search(id).is_ok()) {
                return Some(id);
            }
            let first = candidates.into_iter().min_by(|&a, &b| row.rank(a, b))?;
            blocks = Some(Blocks::of(&row.of, row.before(first)));
        }
    }

    /// The probabilities of what is kept, which sum to 1; 0 elsewhere.
    pub(super) fn probs(&self) -> Vec<f32> {
        let prob = |id| if self.row.mass(id) > 0 { self.row.prob(id, self.sum) } else { 0.0 };
        self.spread(0.0, prob)
    }

    /// The logits of what is kept, -inf elsewhere.
    pub(super) fn logits(&self) -> Vec<f32> {
        match self.sum {
            0 => vec![f32::NEG_INFINITY; self.row.of.values.len()],
            _ => self.spread(f32::NEG_INFINITY, |id| self.row.of.values[id]),
        }
    }

    fn spread(&self, absent: f32, value: impl Fn(usize) -> f32) -> Vec<f32> {
        let vocab = self.row.of.values.len();
        match &self.tokens {
            None => (0..vocab).map(value).collect(),
            Some(tokens) => {
                let mut row = vec![absent; vocab];
                tokens.iter().for_each(|&id| row[id] = value(id));
                row
            }
        }
    }
}

/// Makes NaN `absent`. If there is +inf, makes it `present`, and all others `absent`. Returns the greatest value.
fn settle_infinities(values: &mut [f32], present: f32, absent: f32) -> f32 {
    values.iter_mut().filter(|x| x.is_nan()).for_each(|x| *x = absent);
    let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if greatest < f32::INFINITY {
        return greatest + 0.0; // both zeros are one
    }
    values.iter_mut().for_each(|x| *x = if *x == f32::INFINITY { present } else { absent });
    present
}

#[cfg(test)]
mod tests;
