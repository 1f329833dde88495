//! Blocks of 512 tokens, by which a row is summed and drawn from.
//!
//! A weight is relative to the likeliest token of its block, so that one read of a row finds both the likeliest token
//! and the sums, as online softmax does. Weights are f32, and the order of their sums is that of a warp: lane `l` has
//! the tokens `4 * l` to `4 * l + 3` of each 128.

use super::fixed_point::{
    Temper, least_prob, mass_of_logits_block, mass_of_probs_block, mulhi, weight_of_logit, weight_of_prob,
};

/// Tokens of a block.
pub const BLOCK_TOKENS: usize = 512;
const LANES: usize = 32;
/// Tokens of a lane, and how many are neighbours.
const OF_LANE: usize = BLOCK_TOKENS / LANES;
const STEP: usize = 4;

/// The first tokens in the order of falling values and rising ids.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) value: f32,
    /// Of tokens with this value, ids up to this, exclusive.
    pub(super) end: usize,
}

impl Cut {
    /// All tokens.
    pub(super) const ALL: Cut = Cut { value: f32::NEG_INFINITY, end: usize::MAX };

    pub(super) fn has(self, value: f32, id: usize) -> bool {
        value > self.value || (value == self.value && id < self.end)
    }
}

/// The tokens of a row.
pub(super) struct Tokens<'a> {
    /// Logits with NaN as -inf, or probabilities. If one is +inf, those are 0 and all others -inf.
    pub(super) values: &'a [f32],
    /// The greatest logit or probability.
    pub(super) greatest: f32,
    /// Temperature; `None` for probabilities.
    pub(super) temper: Option<Temper>,
}

impl Tokens<'_> {
    /// Weights of tokens of a block with this greatest value.
    fn weights(&self, values: &[f32], greatest: f32, weights: &mut [f32]) {
        let each = weights.iter_mut().zip(values);
        match self.temper {
            Some(temper) => each.for_each(|(weight, &x)| *weight = weight_of_logit(x - greatest, temper.to_log2)),
            None => {
                let least = least_prob(greatest);
                each.for_each(|(weight, &x)| *weight = weight_of_prob(x, greatest, least));
            }
        }
    }
}

/// Masses of the blocks of a row, of the tokens that a cut has.
pub(super) struct Blocks {
    cut: Cut,
    masses: Vec<u64>,
    pub(super) sum: u64,
}

impl Blocks {
    pub(super) fn of(row: &Tokens<'_>, cut: Cut) -> Self {
        let masses = (0..row.values.len().div_ceil(BLOCK_TOKENS)).map(|block| mass(row, cut, block));
        let masses: Vec<u64> = masses.collect();
        Blocks { cut, sum: masses.iter().sum(), masses }
    }

    /// The token that a random number draws: its upper bits choose the block, its lower 24 the token. `None` without
    /// mass.
    pub(super) fn draw(&self, row: &Tokens<'_>, random: u64) -> Option<usize> {
        let (number, mut through) = (mulhi(random, self.sum), 0);
        let block = self.masses.iter().position(|&mass| {
            through += mass;
            through > number
        })?;
        let weights = Weights::of(row, self.cut, block);
        let mut lanes = weights.of_lanes();
        // the sums of all lanes up to each, as a warp makes them
        for step in [1, 2, 4, 8, 16] {
            for lane in (step..LANES).rev() {
                lanes[lane] += lanes[lane - step];
            }
        }
        let share = (random & 0xff_ffff) as f32 * 5.960_464_5e-8;
        let target = lanes[LANES - 1] * share;
        // rounding may leave no lane, or no token of it: then it is the last with a weight
        let above = (0..LANES).find(|&lane| lanes[lane] > target);
        let lane = above.or_else(|| (0..LANES).rfind(|&lane| weights.lane(lane).any(|weight| weight > 0.0)))?;
        let mut through = if lane == 0 { 0.0 } else { lanes[lane - 1] };
        let mut drawn = None;
        for (i, weight) in weights.lane(lane).enumerate().filter(|&(_, weight)| weight > 0.0) {
            drawn = Some(block * BLOCK_TOKENS + i / STEP * LANES * STEP + lane * STEP + i % STEP);
            through += weight;
            if through > target {
                break;
            }
        }
        drawn
    }
}

fn mass(row: &Tokens<'_>, cut: Cut, block: usize) -> u64 {
    let weights = Weights::of(row, cut, block);
    if weights.greatest < cut.value {
        return 0;
    }
    let mut lanes = weights.of_lanes();
    for half in [16, 8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    match row.temper {
        Some(temper) => mass_of_logits_block(lanes[0], weights.greatest - row.greatest, temper.to_log2),
        None => mass_of_probs_block(lanes[0], weights.greatest, row.greatest),
    }
}

/// Weights of a block's tokens; 0 for those that a cut lacks.
struct Weights {
    greatest: f32,
    all: [f32; BLOCK_TOKENS],
}

impl Weights {
    fn of(row: &Tokens<'_>, cut: Cut, block: usize) -> Self {
        let first = block * BLOCK_TOKENS;
        let values = &row.values[first..row.values.len().min(first + BLOCK_TOKENS)];
        let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max) + 0.0;
        let mut all = [0.0; BLOCK_TOKENS];
        if greatest < cut.value {
            return Weights { greatest, all };
        }
        row.weights(values, greatest, &mut all);
        if cut.value > f32::NEG_INFINITY {
            for (i, weight) in all[..values.len()].iter_mut().enumerate() {
                *weight = if cut.has(values[i], first + i) { *weight } else { 0.0 };
            }
        }
        Weights { greatest, all }
    }

    /// The weights of a lane, in its order.
    fn lane(&self, lane: usize) -> impl Iterator<Item = f32> {
        (0..OF_LANE).map(move |i| self.all[i / STEP * LANES * STEP + lane * STEP + i % STEP])
    }

    /// The sums of lanes: of each of four neighbours over steps, then of pairs.
    fn of_lanes(&self) -> [f32; LANES] {
        let mut sums = [0.0; LANES * STEP];
        for step in self.all.chunks_exact(LANES * STEP) {
            sums.iter_mut().zip(step).for_each(|(sum, weight)| *sum += weight);
        }
        std::array::from_fn(|lane| {
            let of = &sums[lane * STEP..];
            (of[0] + of[1]) + (of[2] + of[3])
        })
    }
}

#[cfg(test)]
mod tests;
