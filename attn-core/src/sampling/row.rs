//! What sampling means for one row: masses of tokens, which of them filters keep, and the draw.

use std::{cell::OnceCell, cmp::Ordering};

use super::{
    FilterOrder,
    fixed_point::{
        BLOCK_TOKENS, Temper, block_mass_of_logit, block_mass_of_prob, log_prob, mass_of_block_of_logits,
        mass_of_block_of_probs, mass_of_logit, mass_of_prob, min_p_logit, mulhi, prob_of_logit, prob_of_prob,
        prob_scale, share_of, share_target, temper,
    },
};
use crate::random;

/// A row's parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filters {
    pub(super) top_k: i32,
    pub(super) top_p: f32,
    pub(super) min_p: f32,
    pub(super) order: FilterOrder,
}

/// The tokens of a row by their masses.
pub(super) struct Row<'a> {
    /// Logits with NaN as -inf, or probabilities. If one is +inf, those are 0 and all others -inf.
    values: &'a [f32],
    /// The greatest logit or probability.
    greatest: f32,
    /// Temperature; `None` for probabilities.
    temper: Option<Temper>,
    temperature: f32,
    masses: Vec<u64>,
    blocks: OnceCell<Vec<Block>>,
}

/// Tokens of a row of which the masses are relative to the likeliest of them.
struct Block {
    first: usize,
    greatest: f32,
    /// Their sum, in units of the row's masses.
    mass: u64,
}

impl<'a> Row<'a> {
    /// A row of logits, to which penalties and mask have been applied.
    pub(super) fn of_logits(values: &'a mut [f32], temperature: f32) -> Self {
        let greatest = settle_infinities(values, 0.0, f32::NEG_INFINITY);
        let temper = temper(temperature);
        let masses = values.iter().map(|&x| mass_of_logit(x - greatest, temper.to_log2)).collect();
        Self::new(values, greatest, Some(temper), temperature, masses)
    }

    /// A row of probabilities, which need not sum to 1.
    pub(super) fn of_probs(values: &'a mut [f32]) -> Self {
        let greatest = settle_infinities(values, 1.0, 0.0);
        let masses = values.iter().map(|&x| mass_of_prob(x, greatest)).collect();
        Self::new(values, greatest, None, 1.0, masses)
    }

    fn new(values: &'a [f32], greatest: f32, temper: Option<Temper>, temperature: f32, masses: Vec<u64>) -> Self {
        Row { values, greatest, temper, temperature, masses, blocks: OnceCell::new() }
    }

    fn blocks(&self) -> &[Block] {
        self.blocks.get_or_init(|| {
            let block = |(index, values): (usize, &[f32])| {
                let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max) + 0.0;
                let sum = values.iter().map(|&x| u64::from(self.block_mass(x, greatest))).sum();
                Block { first: index * BLOCK_TOKENS, greatest, mass: self.mass_of_block(sum, greatest) }
            };
            self.values.chunks(BLOCK_TOKENS).enumerate().map(block).collect()
        })
    }

    fn block_mass(&self, x: f32, greatest: f32) -> u32 {
        match self.temper {
            Some(temper) => block_mass_of_logit(x - greatest, temper.to_log2),
            None => block_mass_of_prob(x, greatest),
        }
    }

    fn mass_of_block(&self, sum: u64, greatest: f32) -> u64 {
        match self.temper {
            Some(temper) => mass_of_block_of_logits(sum, greatest - self.greatest, temper.to_log2),
            None => mass_of_block_of_probs(sum, greatest, self.greatest),
        }
    }

    /// The masses of all blocks together.
    pub(super) fn sum(&self) -> u64 {
        self.blocks().iter().map(|block| block.mass).sum()
    }

    /// The first token, by ids, up to which masses of all tokens exceed `number`.
    fn exceeds(&self, number: u64) -> Option<usize> {
        let mut before = 0;
        let block = self.blocks().iter().find(|block| {
            before += block.mass;
            before > number
        })?;
        let (number, mut through) = (number - (before - block.mass), 0);
        let end = self.values.len().min(block.first + BLOCK_TOKENS);
        (block.first..end).find(|&id| {
            through += u64::from(self.block_mass(self.values[id], block.greatest));
            self.mass_of_block(through, block.greatest) > number
        })
    }

    /// The allowed tokens by their ids.
    fn allowed(&self) -> Vec<usize> {
        let least = if self.temper.is_some() { f32::NEG_INFINITY } else { 0.0 };
        (0..self.values.len()).filter(|&id| self.values[id] > least).collect()
    }

    /// The likeliest first; of equal ones the lower id.
    fn rank(&self, a: usize, b: usize) -> Ordering {
        self.values[b].partial_cmp(&self.values[a]).unwrap_or(Ordering::Equal).then(a.cmp(&b))
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
        let greedy = self.temper.is_some_and(|temper| temper.greedy);
        // NaN is off
        let on = filters.top_k > 0 || filters.top_p < 1.0 || filters.min_p > 0.0;
        if !on && !greedy {
            return Kept { row: self, sum: self.sum(), tokens: None };
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
                FilterOrder::TopKFirst if filters.top_k > 0 => self.mass(&tokens),
                _ => self.sum(),
            };
            let count = self.top_p(&mut tokens, share_target(of, filters.top_p));
            tokens.truncate(count);
        }
        if filters.min_p > 0.0 {
            tokens.retain(|&id| self.above_min_p(id, filters.min_p));
        }
        tokens.sort_unstable();
        Kept { row: self, sum: self.mass(&tokens), tokens: Some(tokens) }
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
                mass += self.masses[id];
                kept += 1;
            }
            part *= 8;
        }
        kept
    }

    fn above_min_p(&self, id: usize, min_p: f32) -> bool {
        match self.temper {
            Some(_) => self.values[id] >= min_p_logit(min_p, self.temperature, self.greatest),
            None => self.values[id] >= min_p.min(1.0) * self.greatest,
        }
    }

    fn mass(&self, tokens: &[usize]) -> u64 {
        tokens.iter().map(|&id| self.masses[id]).sum()
    }

    /// The probability of a token among masses with this sum.
    fn prob(&self, id: usize, sum: u64) -> f32 {
        match self.temper {
            Some(temper) => prob_of_logit(self.values[id] - self.greatest, temper.to_log2, prob_scale(sum)),
            None => prob_of_prob(self.values[id], self.greatest, prob_scale(sum)),
        }
    }

    /// The natural log of that.
    pub(super) fn log_prob(&self, id: usize, sum: u64) -> f32 {
        match self.temper {
            Some(temper) => log_prob(self.values[id] - self.greatest, temper.inverse, sum),
            None => share_of(self.masses[id], sum),
        }
    }

    /// The likeliest tokens that have mass, in falling order.
    pub(super) fn likeliest(&self, count: usize) -> Vec<usize> {
        let mut tokens = self.allowed();
        tokens.retain(|&id| self.masses[id] > 0);
        self.truncate(&mut tokens, count);
        tokens.sort_unstable_by(|&a, &b| self.rank(a, b));
        tokens
    }
}

/// What filters keep of a row.
pub(super) struct Kept<'a> {
    row: &'a Row<'a>,
    pub(super) sum: u64,
    /// The kept tokens by their ids, those without mass too; `None`: all.
    tokens: Option<Vec<usize>>,
}

impl Kept<'_> {
    /// The token that a random number draws: the first, by ids, up to which the masses exceed `random * sum`. `None`
    /// for a row without mass.
    pub(super) fn draw(&self, seed: u64, position: i64, draw: u32) -> Option<usize> {
        let random = mulhi(random::bits64(seed, position as u64, draw), self.sum);
        let Some(tokens) = &self.tokens else { return self.row.exceeds(random) };
        let mut through = 0;
        tokens.iter().copied().find(|&id| {
            through += self.row.masses[id];
            through > random
        })
    }

    /// The probabilities of what is kept, which sum to 1; 0 elsewhere.
    pub(super) fn probs(&self) -> Vec<f32> {
        let prob = |id| if self.row.masses[id] > 0 { self.row.prob(id, self.sum) } else { 0.0 };
        self.spread(0.0, prob)
    }

    /// The logits of what is kept, -inf elsewhere.
    pub(super) fn logits(&self) -> Vec<f32> {
        match self.sum {
            0 => vec![f32::NEG_INFINITY; self.row.values.len()],
            _ => self.spread(f32::NEG_INFINITY, |id| self.row.values[id]),
        }
    }

    fn spread(&self, absent: f32, value: impl Fn(usize) -> f32) -> Vec<f32> {
        let vocab = self.row.values.len();
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
