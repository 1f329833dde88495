use attn::lang::{AttentionVariant, Dims, KvIndex, Row, RowIndex, Tensor1};
use attn::{VariantParams, attention_variant};

use crate::rotary::rotation::cos_sin;

/// Rotary embedding of Llama 3.1: slow frequencies are slowed down for long texts, fast ones stay.
///
/// As `rope`, with other frequencies. A pair of frequency `f = theta^(-2 i / head_dim)` makes
/// `r = original_len * f / (2 pi)` turns in `original_len` positions. Its frequency becomes `f` if
/// `r > high_freq_factor`, `f / factor` if `r < low_freq_factor`, and between them `t f + (1 - t) f / factor` with
/// `t = (r - low_freq_factor) / (high_freq_factor - low_freq_factor)` ("The Llama 3 Herd of Models", arXiv 2407.21783;
/// `rope_type: llama3` in model configurations, which use these parameter names).
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Llama3Rope {
    /// Base of the frequencies.
    #[default(500_000.0)]
    #[require(theta > 0.0 && theta.is_finite())]
    pub theta: f32,
    /// Divisor of slow frequencies.
    #[default(8.0)]
    #[require(factor >= 1.0 && factor.is_finite())]
    pub factor: f32,
    /// Pairs that make fewer turns in `original_len` positions are slow.
    #[default(1.0)]
    #[require(low_freq_factor > 0.0 && low_freq_factor.is_finite())]
    pub low_freq_factor: f32,
    /// Pairs that make more turns in `original_len` positions are fast. Where it equals `low_freq_factor`, as in Llama
    /// 4 Scout, no pair is between them: those that are not slow are fast.
    #[default(4.0)]
    #[require(high_freq_factor >= low_freq_factor && high_freq_factor.is_finite())]
    pub high_freq_factor: f32,
    /// Context length of pre-training, in positions: `original_max_position_embeddings`.
    #[default(8192)]
    #[require(original_len > 0)]
    pub original_len: i32,
    /// Whether pairs are adjacent elements, `(2 i, 2 i + 1)`, instead of half-split.
    #[default(false)]
    pub interleaved: bool,
    /// Angle per position of each pair, in radians. If given, the parameters above have no effect.
    #[shape(head_dim / 2)]
    #[default(scaled_frequencies)]
    #[require(inv_freq.as_slice().iter().all(|x| x.is_finite()))]
    pub inv_freq: Tensor1<f32>,
}

#[attention_variant(name = "llama3_rope")]
impl AttentionVariant for Llama3Rope {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let pos = at.qo_pos as f32;
        if self.interleaved {
            q.rotate_pairs(q.dim(), |i| cos_sin(pos * self.inv_freq[i]));
        } else {
            q.rotate_half(q.dim(), |i| cos_sin(pos * self.inv_freq[i]));
        }
    }

    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        let pos = at.kv_pos as f32;
        if self.interleaved {
            k.rotate_pairs(k.dim(), |i| cos_sin(pos * self.inv_freq[i]));
        } else {
            k.rotate_half(k.dim(), |i| cos_sin(pos * self.inv_freq[i]));
        }
    }
}

fn scaled_frequencies(rope: &Llama3Rope, dims: &Dims) -> Vec<f32> {
    let dim = dims.head_dim.unwrap_or(0);
    let [low, high] = [rope.low_freq_factor, rope.high_freq_factor].map(f64::from);
    let scaled = |i: i64| {
        let fast = f64::from(rope.theta).powf(-2.0 * i as f64 / dim as f64);
        let slow = fast / f64::from(rope.factor);
        let turns = f64::from(rope.original_len) * fast / std::f64::consts::TAU;
        let mix = match high > low {
            true => ((turns - low) / (high - low)).clamp(0.0, 1.0),
            false => f64::from(u8::from(turns >= low)),
        };
        (mix * fast + (1.0 - mix) * slow) as f32
    };
    (0..dim / 2).map(scaled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rotary::rotation::tests::rotated;
    use attn::lang::VariantParams;

    fn bound(mut rope: Llama3Rope, head_dim: i64) -> Llama3Rope {
        rope.bind(&Dims { head_dim: Some(head_dim), ..Dims::default() }).expect("valid");
        rope
    }

    /// The formula in terms of wavelengths, as model code has it.
    #[test]
    fn frequencies_by_their_wavelengths() {
        let rope = bound(Llama3Rope::default(), 128);
        let (low_wave, high_wave) = (8192.0 / 1.0, 8192.0 / 4.0);
        let mut kinds = [0; 3];
        for (i, got) in rope.inv_freq.as_slice().iter().enumerate() {
            let freq = 1.0 / 500_000f64.powf(2.0 * i as f64 / 128.0);
            let wave = std::f64::consts::TAU / freq;
            let (kind, want) = if wave < high_wave {
                (0, freq)
            } else if wave > low_wave {
                (1, freq / 8.0)
            } else {
                let smooth = (8192.0 / wave - 1.0) / (4.0 - 1.0);
                (2, (1.0 - smooth) * freq / 8.0 + smooth * freq)
            };
            kinds[kind] += 1;
            assert!((f64::from(*got) - want).abs() <= 1e-7 * want, "pair {i}: {got} is not {want}");
        }
        assert!(kinds.iter().all(|&n| n > 0), "{kinds:?}");
    }

    #[test]
    fn equal_factors_leave_no_pair_between() {
        let rope = bound(Llama3Rope { factor: 16.0, high_freq_factor: 1.0, ..Llama3Rope::default() }, 128);
        let mut slow = 0;
        for (i, got) in rope.inv_freq.as_slice().iter().enumerate() {
            let freq = 1.0 / 500_000f64.powf(2.0 * i as f64 / 128.0);
            let is_slow = std::f64::consts::TAU / freq > 8192.0;
            let want = if is_slow { freq / 16.0 } else { freq };
            slow += usize::from(is_slow);
            assert!((f64::from(*got) - want).abs() <= 1e-7 * want, "pair {i}: {got} is not {want}");
        }
        assert_eq!(slow, 29);
        let mut crossed = Llama3Rope { high_freq_factor: 0.5, ..Llama3Rope::default() };
        assert!(crossed.bind(&Dims { head_dim: Some(128), ..Dims::default() }).is_err());
    }

    #[test]
    fn queries_and_keys_are_rotated_alike() {
        let row: Vec<f32> = (0..16).map(|d| (d as f32 * 0.7).sin()).collect();
        for interleaved in [false, true] {
            let rope = bound(Llama3Rope { interleaved, ..Llama3Rope::default() }, 16);
            for pos in [0, 5, 100_003] {
                let (mut q, mut k) = (row.clone(), row.clone());
                rope.query_transform(&mut q.as_mut_slice(), RowIndex { qo_pos: pos, ..RowIndex::default() });
                rope.key_transform(&mut k.as_mut_slice(), KvIndex { kv_pos: pos, ..KvIndex::default() });
                assert_eq!(q, k);
                let angles: Vec<f64> = rope.inv_freq.as_slice().iter().map(|f| f64::from(pos as f32 * f)).collect();
                for (got, want) in q.iter().zip(rotated(&row, interleaved, &angles)) {
                    assert!((f64::from(*got) - want).abs() < 1e-6);
                }
            }
        }
    }
}
