use attn::lang::{AttentionVariant, KvIndex, Row, RowIndex, Tensor2};
use attn::{VariantParams, attention_variant};

/// Rotary embedding by a given table of cosines and sines.
///
/// As `rope`, where pair `i` of a row at position `p` is rotated by `(cos[p, i], sin[p, i])`: for frequencies that
/// change with the position (LongRoPE, arXiv 2402.13753), for positions of several axes, and for tables that a model
/// computes itself. Tables may include a scale. Values from `rotary_dim` on stay; positions past the table use its last
/// row.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct RopeTable {
    /// Rows of the tables: positions from 0 on.
    #[require(positions >= 1)]
    pub positions: i32,
    /// Elements of a head that are rotated: even, at most `head_dim`.
    #[require(rotary_dim >= 2 && rotary_dim % 2 == 0 && rotary_dim <= head_dim)]
    pub rotary_dim: i32,
    /// Whether pairs are adjacent elements, `(2 i, 2 i + 1)`, instead of half-split.
    #[default(false)]
    pub interleaved: bool,
    /// Cosine for each position and pair.
    #[shape(positions, rotary_dim / 2)]
    #[require(cos.as_slice().iter().all(|x| x.is_finite()))]
    pub cos: Tensor2<f32>,
    /// Sine for each position and pair.
    #[shape(positions, rotary_dim / 2)]
    #[require(sin.as_slice().iter().all(|x| x.is_finite()))]
    pub sin: Tensor2<f32>,
}

#[attention_variant(name = "rope_table")]
impl AttentionVariant for RopeTable {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let pos = at.qo_pos;
        if self.interleaved {
            q.rotate_pairs(self.rotary_dim, |i| (self.cos[[pos, i]], self.sin[[pos, i]]));
        } else {
            q.rotate_half(self.rotary_dim, |i| (self.cos[[pos, i]], self.sin[[pos, i]]));
        }
    }

    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        let pos = at.kv_pos;
        if self.interleaved {
            k.rotate_pairs(self.rotary_dim, |i| (self.cos[[pos, i]], self.sin[[pos, i]]));
        } else {
            k.rotate_half(self.rotary_dim, |i| (self.cos[[pos, i]], self.sin[[pos, i]]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rotary::rotation::tests::rotated;

    #[test]
    fn the_formula() {
        let angle = |pos: usize, i: usize| (pos as f64 + 0.5) * (i as f64 + 1.0);
        let table = |f: fn(f64) -> f64| {
            let values = (0..12).map(|n| f(angle(n / 3, n % 3)) as f32).collect();
            Tensor2::new(values, [4, 3]).expect("twelve values")
        };
        let row: Vec<f32> = (0..8).map(|d| (d as f32 * 0.7).sin()).collect();
        for interleaved in [false, true] {
            let rope =
                RopeTable { positions: 4, rotary_dim: 6, interleaved, cos: table(f64::cos), sin: table(f64::sin) };
            for pos in [0, 3, 9] {
                let (mut q, mut k) = (row.clone(), row.clone());
                rope.query_transform(&mut q.as_mut_slice(), RowIndex { qo_pos: pos, ..RowIndex::default() });
                rope.key_transform(&mut k.as_mut_slice(), KvIndex { kv_pos: pos, ..KvIndex::default() });
                assert_eq!(q, k);
                let angles: Vec<f64> = (0..3).map(|i| angle(pos.min(3) as usize, i)).collect();
                for (got, want) in q.iter().zip(rotated(&row, interleaved, &angles)) {
                    assert!((f64::from(*got) - want).abs() < 1e-6);
                }
            }
        }
    }
}
