//! The numbers that sampling computes on the host and in kernels, with the same bits.
//!
//! A token's mass is its probability relative to the likeliest token's, in fixed point with 36 bits behind the point.
//! Sums of integers have the same bits in any order. A token's weight is its probability relative to the likeliest of
//! its block, in f32, and sums of weights have an order. Functions of reals are polynomials whose multiply-adds are
//! fused in the source, and no product is added without that: a compiler has nothing left to contract.

// the constants of `std` have no text in CUDA
#![allow(clippy::approx_constant)]

pub(crate) use device::CUDA;
pub use device::{
    Exp2, Temper, accepts, excess_mass, exp2_of, least_prob, log_prob, log2_of, mass_of, mass_of_logit,
    mass_of_logits_block, mass_of_prob, mass_of_probs_block, min_p_logit, mulhi, penalised, prob_of_logit,
    prob_of_prob, prob_scale, share_of, share_target, temper, weight_of_logit, weight_of_prob,
};

/// Bits of a mass behind the point.
pub const MASS_BITS: u32 = 36;

/// What sampling computes on the host and in kernels, with the same bits.
#[attn_macros::device_mod(
    namespace = "lang::sampling",
    include = "lang/types.cuh",
    include = "lang/operators.cuh",
    include = "lang/float_fn.cuh",
    include = "lang/int_fn.cuh",
    include = "lang/number_fn.cuh"
)]
mod device {
    /// A power of two that is at most 1: `mantissa * 2^-(31 + shift)`.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Exp2 {
        /// 0.7 to 1.42, in units of 2^-31.
        pub mantissa: u32,
        /// Negative exponent.
        pub shift: u32,
    }

    /// A row's temperature, as factors of logits.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Temper {
        /// log2(e) / temperature.
        pub to_log2: f32,
        /// 1 / temperature.
        pub inverse: f32,
        /// Whether the temperature is 0, below it, or NaN: only the likeliest token is kept.
        pub greedy: bool,
    }

    /// The factors of a temperature. A greedy row has those of temperature 1, for log-probabilities.
    pub fn temper(temperature: f32) -> Temper {
        let greedy = temperature <= 0.0 || temperature.is_nan();
        let t = if greedy { 1.0 } else { temperature };
        // a temperature near 0 must not make 0 * inf of the likeliest token
        Temper { to_log2: (1.442_695_f32 / t).min(1.0e30), inverse: (1.0 / t).min(1.0e30), greedy }
    }

    /// 2^(distance * to_log2) of a distance below the likeliest logit, at most 0. Of -inf and NaN the shift is so great
    /// that the power is 0.
    pub fn exp2_of(distance: f32, to_log2: f32) -> Exp2 {
        // 1.5 * 2^23: adding it rounds to an integer, which the last bits hold
        let shifted = distance.mul_add(-to_log2, 12_582_912.0);
        let rest = distance.mul_add(to_log2, shifted - 12_582_912.0);
        // 1 + 2^rest / 2, minimax with relative error 1.1e-7: it is in 1 to 2, so that its last 23 bits are 2^rest
        let mut y = rest.mul_add(0.000_663_236_4, 0.004_835_756_5);
        y = rest.mul_add(y, 0.027_753_668);
        y = rest.mul_add(y, 0.120_111_21);
        y = rest.mul_add(y, 0.346_573_5);
        y = rest.mul_add(y, 1.5);
        Exp2 { mantissa: y.to_bits() << 9, shift: shifted.to_bits().wrapping_sub(0x4b40_0000) }
    }

    /// A power in units of 2^-36, rounded down.
    pub fn mass_of(power: Exp2) -> u64 {
        (u64::from(power.mantissa) << 5) >> power.shift.min(63)
    }

    /// The mass of a logit that is `distance` below the likeliest.
    pub fn mass_of_logit(distance: f32, to_log2: f32) -> u64 {
        mass_of(exp2_of(distance, to_log2))
    }

    /// 2^(distance * to_log2) of a distance below the likeliest logit of a block. Below 2^-125, and of NaN, it is 0.
    pub fn weight_of_logit(distance: f32, to_log2: f32) -> f32 {
        // 1.5 * 2^23, as above
        let shifted = distance.mul_add(to_log2, 12_582_912.0);
        let rest = distance.mul_add(to_log2, 12_582_912.0 - shifted);
        // 2^rest, with the coefficients above
        let mut y = rest.mul_add(0.001_326_472_8, 0.009_671_513_f32);
        y = rest.mul_add(y, 0.055_507_336_f32);
        y = rest.mul_add(y, 0.240_222_42);
        y = rest.mul_add(y, 0.693_147_f32);
        y = rest.mul_add(y, 1.0);
        let power = f32::from_bits(y.to_bits().wrapping_add(shifted.to_bits() << 23));
        if shifted >= 12_582_787.0 { power } else { 0.0 }
    }

    /// The mass of a block of logits with this sum of weights. Its likeliest logit is `distance` below that of the row.
    pub fn mass_of_logits_block(weight: f32, distance: f32, to_log2: f32) -> u64 {
        (weight * weight_of_logit(distance, to_log2) * 68_719_476_736.0) as u64
    }

    /// The least probability of a block with this greatest one that has a weight: a normal number, at most 2^100 below.
    pub fn least_prob(greatest: f32) -> f32 {
        let exponent = (greatest.to_bits() >> 23).max(101) - 100;
        if greatest >= 1.0e-30 { f32::from_bits(exponent << 23) } else { 1.175_494_4e-38 }
    }

    /// The weight of a probability, in units of half the power of two below the greatest of its block. `least`: by
    /// [`least_prob`].
    pub fn weight_of_prob(prob: f32, greatest: f32, least: f32) -> f32 {
        let power = f32::from_bits(255u32.wrapping_sub(greatest.to_bits() >> 23) << 23);
        let weight = prob * power;
        if prob >= least { weight } else { 0.0 }
    }

    /// The mass of a block of probabilities with this sum of weights. `of_block`: its greatest probability.
    pub fn mass_of_probs_block(weight: f32, of_block: f32, greatest: f32) -> u64 {
        let below = (greatest.to_bits() >> 23).wrapping_sub(of_block.to_bits() >> 23);
        ((weight * 17_179_869_184.0) as u64) >> below.min(63)
    }

    /// The factor that makes probabilities of powers of two, for a sum of masses.
    pub fn prob_scale(sum: u64) -> f32 {
        68_719_476_736.0 / (sum as f32)
    }

    /// The probability of a logit that is `distance` below the likeliest. Below 2^-90 of the likeliest it is 0.
    pub fn prob_of_logit(distance: f32, to_log2: f32, scale: f32) -> f32 {
        let power = exp2_of(distance, to_log2);
        // 23 bits: the conversion is exact
        let bits = (power.mantissa as f32).to_bits();
        if power.shift > 90 {
            0.0
        } else {
            f32::from_bits(bits.wrapping_sub(power.shift.wrapping_add(31) << 23)) * scale
        }
    }

    /// The mass of a probability, relative to the power of two above the greatest. It is 0 for what is not a positive
    /// normal number.
    pub fn mass_of_prob(prob: f32, greatest: f32) -> u64 {
        let bits = prob.to_bits();
        let exponent = bits >> 23;
        // the sign bit makes exponents of negative numbers great
        let below = (greatest.to_bits() >> 23).wrapping_sub(exponent);
        let mass = (u64::from((bits << 8) | 0x8000_0000) << 4) >> below.min(63);
        if exponent == 0 { 0 } else { mass }
    }

    /// A probability, normalised by [`prob_scale`] of the sum of [`mass_of_prob`].
    pub fn prob_of_prob(prob: f32, greatest: f32, scale: f32) -> f32 {
        let power = f32::from_bits(255u32.wrapping_sub(greatest.to_bits() >> 23) << 23);
        // masses of probabilities are in units of half a mass
        if mass_of_prob(prob, greatest) == 0 { 0.0 } else { prob * 0.25 * power * scale }
    }

    /// log2 of a number that is not 0, in units of 2^`unit`.
    pub fn log2_of(number: u64, unit: i32) -> f32 {
        let zeros = number.leading_zeros();
        // 24 bits, 1 to 2
        let high = ((number << zeros) >> 40) as u32;
        let whole = f32::from_bits((high & 0x007f_ffff) | 0x3f80_0000);
        let halve = whole > 1.414_213_5;
        let x = if halve { whole * 0.5 } else { whole };
        let exponent = (63 - zeros as i32) + unit + (if halve { 1 } else { 0 });
        // 2 / ln 2 * atanh(s), by its series
        let s = (x - 1.0) / (x + 1.0);
        let square = s * s;
        let mut y = square.mul_add(0.320_598_9, 0.412_198_6);
        y = square.mul_add(y, 0.577_078_f32);
        y = square.mul_add(y, 0.961_796_7);
        y = square.mul_add(y, 2.885_39_f32);
        s.mul_add(y, exponent as f32)
    }

    /// The natural log of a logit's probability: it is `distance` below the likeliest, in a row whose masses sum to
    /// `sum`.
    pub fn log_prob(distance: f32, inverse: f32, sum: u64) -> f32 {
        let below = log2_of(sum, -36) * -0.693_147_2;
        distance.mul_add(inverse, below)
    }

    /// The natural log of the share of a mass in a sum.
    pub fn share_of(mass: u64, sum: u64) -> f32 {
        let unit = sum.leading_zeros() as i32 - 63;
        (log2_of(mass, unit) - log2_of(sum, unit)) * 0.693_147_2
    }

    /// The least logit that min-p keeps: `greatest + temperature * ln(min_p)`.
    pub fn min_p_logit(min_p: f32, temperature: f32, greatest: f32) -> f32 {
        if min_p >= 1.0 {
            greatest
        } else if min_p > 0.0 {
            // in units of 2^-63, of which a number below 1 has not more than 2^63
            let bits = min_p.to_bits();
            let below = 126u32.wrapping_sub(bits >> 23);
            let units = (u64::from((bits & 0x007f_ffff) | 0x0080_0000) << 39) >> below.min(63);
            let log2 = if units == 0 { -126.0 } else { log2_of(units, -63) };
            (temperature * 0.693_147_2).mul_add(log2, greatest)
        } else {
            f32::NEG_INFINITY
        }
    }

    /// A logit with penalties. `count` is how often the token was drawn, plus 2^31 if it is in the prompt.
    pub fn penalised(logit: f32, count: u32, repetition: f32, presence: f32, frequency: f32) -> f32 {
        let drawn = count & 0x7fff_ffff;
        let factor = if count == 0 { 1.0 } else { repetition };
        let constant = if drawn == 0 { 0.0 } else { presence };
        let less = if logit > 0.0 { logit / factor - constant } else { logit.mul_add(factor, -constant) };
        (drawn as f32).mul_add(-frequency, less)
    }

    /// Top-p keeps a token if the mass before it is below this: `share * of`, rounded up, and at least 1.
    pub fn share_target(of: u64, share: f32) -> u64 {
        let units = u64::from((share * 4_294_967_296.0) as u32);
        let low = (of & 0xffff_ffff) * units;
        let target = (of >> 32) * units + ((low + 0xffff_ffff) >> 32);
        target.max(1)
    }

    /// Whether a draft is accepted, with 24 bits of a random number: with probability `min(1, target / draft)`.
    pub fn accepts(random: u64, draft: f32, target: f32) -> bool {
        ((random >> 40) as f32) * 5.960_464_5e-8 * draft < target
    }

    /// What a probability exceeds another by, in units of 2^-35; 0 if it does not.
    pub fn excess_mass(target: f32, draft: f32) -> u64 {
        mass_of_prob(target - draft, 1.0)
    }

    /// The upper 64 bits of a product.
    pub fn mulhi(a: u64, b: u64) -> u64 {
        let (a0, a1) = (a & 0xffff_ffff, a >> 32);
        let (b0, b1) = (b & 0xffff_ffff, b >> 32);
        let low = (a0 * b0) >> 32;
        let middle = a1 * b0 + low;
        let other = a0 * b1 + (middle & 0xffff_ffff);
        a1 * b1 + (middle >> 32) + (other >> 32)
    }
}

#[cfg(test)]
mod tests;
