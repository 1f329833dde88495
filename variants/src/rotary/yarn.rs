use attn::lang::{AttentionVariant, Dims, KvIndex, Row, RowIndex, Tensor1};
use attn::{VariantParams, attention_variant};

use crate::rotary::rotation::cos_sin;

/// YaRN: rotary embedding stretched to longer texts, by frequency, with a factor on the logits.
///
/// As `rope`, with frequencies between `f = theta^(-2 i / head_dim)` and `f / factor` (arXiv 2309.00071, section 3.2).
/// Pair `i` keeps `f` where it makes more than `beta_fast` turns in `original_len` positions, and has `f / factor`
/// where it makes fewer than `beta_slow`. Between these two pairs frequencies are mixed linearly in `i`; `truncate`
/// rounds the two pairs outwards. Rotated queries and keys are both multiplied by `mscale * ln(factor) + 1` (section
/// 3.4: `mscale = 0.1`).
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Yarn {
    /// Base of the frequencies.
    #[default(10000.0)]
    #[require(theta > 1.0 && theta.is_finite())]
    pub theta: f32,
    /// Context length divided by that of pre-training.
    #[require(factor >= 1.0 && factor.is_finite())]
    pub factor: f32,
    /// Context length of pre-training, in positions: `original_max_position_embeddings`.
    #[default(4096)]
    #[require(original_len > 0)]
    pub original_len: i32,
    /// Pairs that make more turns in `original_len` positions keep their frequency.
    #[default(32.0)]
    #[require(beta_fast >= beta_slow && beta_fast.is_finite())]
    pub beta_fast: f32,
    /// Frequencies of pairs that make fewer turns are divided by `factor`.
    #[default(1.0)]
    #[require(beta_slow > 0.0 && beta_slow.is_finite())]
    pub beta_slow: f32,
    /// Whether the two pairs between which frequencies are mixed are rounded to integers; false in gpt-oss.
    #[default(true)]
    pub truncate: bool,
    /// Coefficient of `ln(factor)` in the factor of rotated rows; 0 keeps their length, below 0 they are shorter.
    #[default(0.1)]
    #[require(mscale.is_finite())]
    pub mscale: f32,
    /// Whether pairs are adjacent elements, `(2 i, 2 i + 1)`, instead of half-split.
    #[default(false)]
    pub interleaved: bool,
    /// Angle per position of each pair, in radians. If given, the parameters of frequencies have no effect.
    #[shape(head_dim / 2)]
    #[default(by_parts)]
    #[require(inv_freq.as_slice().iter().all(|x| x.is_finite()))]
    pub inv_freq: Tensor1<f32>,
}

#[attention_variant(name = "yarn")]
impl AttentionVariant for Yarn {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let pos = at.qo_pos as f32;
        let scale = self.mscale * self.factor.ln() + 1.0;
        if self.interleaved {
            q.rotate_pairs(q.dim(), |i| cos_sin(pos * self.inv_freq[i]));
        } else {
            q.rotate_half(q.dim(), |i| cos_sin(pos * self.inv_freq[i]));
        }
        q.map(|_, x| x * scale);
    }

    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        let pos = at.kv_pos as f32;
        let scale = self.mscale * self.factor.ln() + 1.0;
        if self.interleaved {
            k.rotate_pairs(k.dim(), |i| cos_sin(pos * self.inv_freq[i]));
        } else {
            k.rotate_half(k.dim(), |i| cos_sin(pos * self.inv_freq[i]));
        }
        k.map(|_, x| x * scale);
    }
}

fn by_parts(yarn: &Yarn, dims: &Dims) -> Vec<f32> {
    let dim = dims.head_dim.unwrap_or(0) as f64;
    let theta = f64::from(yarn.theta);
    // the (fractional) pair that makes this many turns in `original_len` positions
    let pair = |turns: f32| {
        let wave = f64::from(yarn.original_len) / (f64::from(turns) * std::f64::consts::TAU);
        dim * wave.ln() / (2.0 * theta.ln())
    };
    let (mut low, mut high) = (pair(yarn.beta_fast), pair(yarn.beta_slow));
    if yarn.truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(dim - 1.0));
    // an empty span becomes a step
    let span = if high == low { 0.001 } else { high - low };
    let frequency = |i: i64| {
        let fast = theta.powf(-2.0 * i as f64 / dim);
        let slowed = ((i as f64 - low) / span).clamp(0.0, 1.0);
        (slowed * fast / f64::from(yarn.factor) + (1.0 - slowed) * fast) as f32
    };
    (0..dim as i64 / 2).map(frequency).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rotary::rotation::tests::rotated;
    use attn::lang::VariantParams;

    fn bound(text: &[(&str, f64)], head_dim: i64) -> Yarn {
        let values = text.iter().map(|(name, x)| ((*name).to_owned(), attn::lang::ParamValue::Float(*x))).collect();
        let mut yarn = Yarn::from_values(&attn::lang::ParamValues(values)).expect("valid");
        yarn.bind(&Dims { head_dim: Some(head_dim), ..Dims::default() }).expect("valid");
        yarn
    }

    /// A model with head_dim 128, theta 10000 and 4096 positions mixes pairs 20 to 46.
    #[test]
    fn frequencies_are_mixed_between_two_pairs() {
        let yarn = bound(&[("factor", 16.0)], 128);
        for (i, got) in yarn.inv_freq.as_slice().iter().enumerate() {
            let fast = 10000f64.powf(-2.0 * i as f64 / 128.0);
            let ramp = ((i as f64 - 20.0) / 26.0).clamp(0.0, 1.0);
            let want = (fast / 16.0) * ramp + fast * (1.0 - ramp);
            assert!((f64::from(*got) - want).abs() <= 1e-7 * want, "pair {i}: {got} is not {want}");
        }
    }

    #[test]
    fn rows_are_rotated_and_scaled() {
        let yarn = bound(&[("factor", 4.0), ("original_len", 64.0)], 16);
        let row: Vec<f32> = (0..16).map(|d| (d as f32 * 0.7).sin()).collect();
        let scale = 0.1 * 4f64.ln() + 1.0;
        for pos in [0, 9, 4000] {
            let (mut q, mut k) = (row.clone(), row.clone());
            yarn.query_transform(&mut q.as_mut_slice(), RowIndex { qo_pos: pos, ..RowIndex::default() });
            yarn.key_transform(&mut k.as_mut_slice(), KvIndex { kv_pos: pos, ..KvIndex::default() });
            assert_eq!(q, k);
            let angles: Vec<f64> = yarn.inv_freq.as_slice().iter().map(|f| f64::from(pos as f32 * f)).collect();
            for (got, want) in q.iter().zip(rotated(&row, false, &angles)) {
                assert!((f64::from(*got) - want * scale).abs() < 2e-6);
            }
        }
    }
}
