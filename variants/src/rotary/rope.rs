use attn::lang::{AttentionVariant, Dims, KvIndex, Row, RowIndex, Tensor1, approx};
use attn::{VariantParams, attention_variant};

/// Rotary embedding: queries and keys are rotated by their positions.
///
/// Pair `i` of a row, `i < rot / 2`, is rotated by the angle `pos * inv_freq[i]` with
/// `inv_freq[i] = theta^(-2 i / rot) / scale` (RoFormer, arXiv 2104.09864): `(a, b)` becomes
/// `(a cos - b sin, b cos + a sin)`. `pos` is `qo_pos` for queries and `kv_pos` for keys. Half-split pairs are
/// `(i, i + rot / 2)` (GPT-NeoX, Llama as in Hugging Face); interleaved ones `(2 i, 2 i + 1)` (GPT-J, Llama as
/// released). Values from `rot` on stay as they are.
///
/// `inv_freq` is computed on the host in f64 and stored in f32; the angle is an f32 product, its sine and cosine are
/// to 2^-20 on a GPU ([`approx::sin_cos`]). The cache must hold keys that are not rotated yet.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Rope {
    /// Base of the frequencies.
    #[default(10000.0)]
    #[require(theta > 0.0 && theta.is_finite())]
    pub theta: f32,
    /// Divisor of positions: linear interpolation (arXiv 2306.15595); a scale of 4 stretches 4k positions to 16k.
    #[default(1.0)]
    #[require(scale > 0.0 && scale.is_finite())]
    pub scale: f32,
    /// Whether pairs are adjacent elements, `(2 i, 2 i + 1)`, instead of half-split.
    #[default(false)]
    pub interleaved: bool,
    /// Elements of a head that are rotated: even, at most `head_dim`; 0 for the whole head.
    #[default(0)]
    #[require(rotary_dim >= 0 && rotary_dim % 2 == 0 && rotary_dim <= head_dim)]
    pub rotary_dim: i32,
    /// Angle per position of each pair, in radians. If given, `theta` and `scale` have no effect.
    #[shape(if rotary_dim == 0 { head_dim / 2 } else { rotary_dim / 2 })]
    #[default(paper_frequencies)]
    #[require(inv_freq.as_slice().iter().all(|x| x.is_finite()))]
    pub inv_freq: Tensor1<f32>,
}

#[attention_variant(name = "rope")]
impl AttentionVariant for Rope {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let rot = if self.rotary_dim == 0 { q.dim() } else { self.rotary_dim };
        let pos = at.qo_pos as f32;
        if self.interleaved {
            q.rotate_pairs(rot, |i| {
                let (sin, cos) = approx::sin_cos(pos * self.inv_freq[i]);
                (cos, sin)
            });
        } else {
            q.rotate_half(rot, |i| {
                let (sin, cos) = approx::sin_cos(pos * self.inv_freq[i]);
                (cos, sin)
            });
        }
    }

    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        let rot = if self.rotary_dim == 0 { k.dim() } else { self.rotary_dim };
        let pos = at.kv_pos as f32;
        if self.interleaved {
            k.rotate_pairs(rot, |i| {
                let (sin, cos) = approx::sin_cos(pos * self.inv_freq[i]);
                (cos, sin)
            });
        } else {
            k.rotate_half(rot, |i| {
                let (sin, cos) = approx::sin_cos(pos * self.inv_freq[i]);
                (cos, sin)
            });
        }
    }
}

/// `theta^(-2 i / rot) / scale` for each pair.
fn paper_frequencies(rope: &Rope, dims: &Dims) -> Vec<f32> {
    let rot = if rope.rotary_dim == 0 { dims.head_dim.unwrap_or(0) } else { i64::from(rope.rotary_dim) };
    let freq = |i: i64| f64::from(rope.theta).powf(-2.0 * i as f64 / rot as f64) / f64::from(rope.scale);
    (0..rot / 2).map(|i| freq(i) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::{BindError, VariantParams};

    fn bound(mut rope: Rope, head_dim: i64) -> Result<Rope, BindError> {
        rope.bind(&Dims { head_dim: Some(head_dim), ..Dims::default() })?;
        Ok(rope)
    }

    /// The rotated key, in f64 from the f32 angle.
    fn want(rope: &Rope, row: &[f32], rot: usize, pos: i32) -> Vec<f64> {
        let mut out: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
        for i in 0..rot / 2 {
            let inv_freq = f64::from(rope.theta).powf(-2.0 * i as f64 / rot as f64) / f64::from(rope.scale);
            let angle = f64::from(pos as f32 * inv_freq as f32);
            let (first, second) = if rope.interleaved { (2 * i, 2 * i + 1) } else { (i, i + rot / 2) };
            let (a, b) = (f64::from(row[first]), f64::from(row[second]));
            out[first] = a * angle.cos() - b * angle.sin();
            out[second] = b * angle.cos() + a * angle.sin();
        }
        out
    }

    #[test]
    fn the_formula() {
        let row: Vec<f32> = (0..16).map(|d| (d as f32 * 0.7).sin()).collect();
        for interleaved in [false, true] {
            for (rotary_dim, rot) in [(0, 16), (8, 8)] {
                let rope = Rope { interleaved, rotary_dim, theta: 500.0, scale: 2.0, ..Rope::default() };
                let rope = bound(rope, 16).expect("valid");
                for pos in [0, 1, 77, 131_071] {
                    let want = want(&rope, &row, rot, pos);
                    let (mut q, mut k) = (row.clone(), row.clone());
                    rope.query_transform(&mut q.as_mut_slice(), RowIndex { qo_pos: pos, ..RowIndex::default() });
                    rope.key_transform(&mut k.as_mut_slice(), KvIndex { kv_pos: pos, ..KvIndex::default() });
                    assert_eq!(q, k);
                    for (got, want) in k.iter().zip(want) {
                        assert!((f64::from(*got) - want).abs() < 1e-6, "position {pos}: {got} is not {want}");
                    }
                }
            }
        }
    }

    #[test]
    fn defaults_are_those_of_the_paper() {
        let rope = bound(Rope::default(), 4).expect("valid");
        assert_eq!((rope.theta, rope.inv_freq.as_slice()), (10000.0, [1.0, 0.01].as_slice()));
    }

    #[test]
    fn invalid_rotary_dims_are_refused() {
        for rotary_dim in [-2, 5, 18] {
            let error = bound(Rope { rotary_dim, ..Rope::default() }, 16).expect_err("not a rotary_dim");
            assert!(matches!(error, BindError::Require { .. }), "{error}");
        }
        let short = Rope { inv_freq: Tensor1::from([1.0]), ..Rope::default() };
        assert!(matches!(bound(short, 16), Err(BindError::Shape { .. })));
    }
}
