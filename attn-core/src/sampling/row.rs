//! What sampling means for one row: masses of tokens, which of them filters keep, and the draw.

use std::cmp::Ordering;

use super::{
    FilterOrder,
    fixed_point::{
        Temper, log_prob, mass_of_logit, mass_of_prob, min_p_logit, mulhi, prob_of_logit, prob_of_prob, prob_scale,
        share_of, share_target, temper,
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
    /// All masses together.
    pub(super) sum: u64,
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
        let sum = masses.iter().sum();
        Row { values, greatest, temper, temperature, masses, sum }
    }

    /// The allowed tokens from the likeliest; of equal ones the lower id first.
    fn in_order(&self) -> Vec<usize> {
        let least = if self.temper.is_some() { f32::NEG_INFINITY } else { 0.0 };
        let mut tokens: Vec<usize> = (0..self.values.len()).filter(|&id| self.values[id] > least).collect();
        tokens.sort_by(|&a, &b| self.values[b].partial_cmp(&self.values[a]).unwrap_or(Ordering::Equal).then(a.cmp(&b)));
        tokens
    }

    /// The masses of the tokens that the filters keep, of others 0.
    pub(super) fn keep(&self, filters: &Filters) -> Kept {
        let greedy = self.temper.is_some_and(|temper| temper.greedy);
        // NaN is off
        let on = filters.top_k > 0 || filters.top_p < 1.0 || filters.min_p > 0.0;
        if !on && !greedy {
            return Kept { masses: self.masses.clone(), sum: self.sum, tokens: None };
        }
        let tokens = self.in_order();
        let mut kept = if greedy { &tokens[..tokens.len().min(1)] } else { &tokens[..] };
        if filters.top_k > 0 {
            kept = &kept[..kept.len().min(filters.top_k as usize)];
        }
        if filters.top_p < 1.0 {
            let of = match filters.order {
                FilterOrder::TopKFirst => self.mass(kept),
                FilterOrder::Joint => self.sum,
            };
            let target = share_target(of, filters.top_p);
            let mut before = 0;
            let within = |&&id: &&usize| {
                let is_within = before < target;
                before += self.masses[id];
                is_within
            };
            kept = &kept[..kept.iter().take_while(within).count()];
        }
        if filters.min_p > 0.0 {
            let count = kept.iter().take_while(|&&id| self.above_min_p(id, filters.min_p)).count();
            kept = &kept[..count];
        }
        let mut masses = vec![0; self.masses.len()];
        kept.iter().for_each(|&id| masses[id] = self.masses[id]);
        Kept { sum: self.mass(kept), masses, tokens: Some(kept.to_vec()) }
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
    pub(super) fn prob(&self, id: usize, sum: u64) -> f32 {
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

    /// The likeliest tokens.
    pub(super) fn likeliest(&self, count: usize) -> Vec<usize> {
        let mut tokens = self.in_order();
        tokens.retain(|&id| self.masses[id] > 0);
        tokens.truncate(count);
        tokens
    }

    /// The logits of what is kept, -inf elsewhere.
    pub(super) fn masked(&self, kept: &Kept) -> Vec<f32> {
        match (&kept.tokens, kept.sum) {
            (_, 0) => vec![f32::NEG_INFINITY; self.values.len()],
            (None, _) => self.values.to_vec(),
            (Some(tokens), _) => {
                let mut masked = vec![f32::NEG_INFINITY; self.values.len()];
                tokens.iter().for_each(|&id| masked[id] = self.values[id]);
                masked
            }
        }
    }
}

/// What filters keep of a row.
pub(super) struct Kept {
    pub(super) masses: Vec<u64>,
    pub(super) sum: u64,
    /// The kept tokens, those without mass too; `None`: all.
    tokens: Option<Vec<usize>>,
}

impl Kept {
    /// The token that a random number draws: the first, by ids, up to which the masses exceed `random * sum`. `None`
    /// for a row without mass.
    pub(super) fn draw(&self, seed: u64, position: i64, draw: u32) -> Option<usize> {
        let random = mulhi(random::bits64(seed, position as u64, draw), self.sum);
        let mut through = 0;
        self.masses.iter().position(|mass| {
            through += mass;
            through > random
        })
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
