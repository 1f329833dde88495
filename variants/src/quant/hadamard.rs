use attn::lang::{AttentionVariant, KvIndex, Row, RowIndex, RowState};
use attn::{VariantParams, attention_variant};

/// Rotates queries and keys, and if asked for values and outputs, by the Walsh-Hadamard transform.
///
/// `x <- H x / sqrt(head_dim)`, which leaves products of queries and keys and, since it is its own inverse, outputs as
/// they are but for rounding; dimensions are powers of two. Afterwards the elements of a row have similar sizes, so
/// that KV formats of four bits lose less: with rotated rows in the cache (`KvStored::Transformed`) appends rotate and
/// encode, and kernels decode only. As in QuaRot (arXiv 2404.00456) and SpinQuant (arXiv 2405.16406).
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Hadamard {
    /// Whether values are rotated, and outputs back.
    #[default(true)]
    // powers of two divide the largest
    #[require(512 % head_dim == 0 && (!values || 512 % value_dim == 0))]
    pub values: bool,
}

#[attention_variant(name = "hadamard")]
impl AttentionVariant for Hadamard {
    fn query_transform<R: Row>(&self, q: &mut R, _at: RowIndex) {
        q.hadamard();
    }

    fn key_transform<R: Row>(&self, k: &mut R, _at: KvIndex) {
        k.hadamard();
    }

    fn value_transform<R: Row>(&self, v: &mut R, _at: KvIndex) {
        if self.values {
            v.hadamard();
        }
    }

    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, _at: RowIndex) {
        if self.values {
            o.hadamard();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_outputs_stay() {
        let hadamard = Hadamard { values: true };
        let (q, k) = ([1.0f32, 2.0, -3.0, 0.5], [0.25f32, -1.0, 4.0, 2.0]);
        let (mut rotated_q, mut rotated_k) = (q, k);
        hadamard.query_transform(&mut rotated_q.as_mut_slice(), RowIndex::default());
        hadamard.key_transform(&mut rotated_k.as_mut_slice(), KvIndex::default());
        let dot = |a: [f32; 4], b: [f32; 4]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        assert_eq!(rotated_q, [0.25, -2.25, 1.75 + 1.0, 1.25]);
        assert_eq!(dot(rotated_q, rotated_k), dot(q, k));
        let mut v = k;
        hadamard.value_transform(&mut v.as_mut_slice(), KvIndex::default());
        let state = RowState { row_max: 0.0, denominator: 1.0, lse: 0.0 };
        hadamard.output_transform(&mut v.as_mut_slice(), state, RowIndex::default());
        assert_eq!(v, k);
        let plain = Hadamard { values: false };
        plain.value_transform(&mut v.as_mut_slice(), KvIndex::default());
        assert_eq!(v, k);
    }
}
