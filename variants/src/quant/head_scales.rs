use attn::lang::{AttentionVariant, Dims, LogitIndex, Row, RowIndex, RowState, Tensor1};
use attn::{VariantParams, attention_variant};

/// Scales per head of quantised queries, keys and values.
///
/// `logit * q[qo_head] * k[kv_head]` and `o * v[kv_head]`: a stored element is the true one divided by its head's scale
/// (granularities as in KVQuant, arXiv 2401.18079). No pass over the cache is needed, because a scale that all keys of
/// a head share is a factor of the sums.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct HeadScales {
    /// Scale of the queries, for each query head.
    #[shape(qo_heads)]
    #[default(one_a_query_head)]
    #[require(q.as_slice().iter().all(|x| x.is_finite()))]
    pub q: Tensor1<f32>,
    /// Scale of the keys, for each KV head.
    #[shape(kv_heads)]
    #[default(one_a_kv_head)]
    #[require(k.as_slice().iter().all(|x| x.is_finite()))]
    pub k: Tensor1<f32>,
    /// Scale of the values, for each KV head.
    #[shape(kv_heads)]
    #[default(one_a_kv_head)]
    #[require(v.as_slice().iter().all(|x| x.is_finite()))]
    pub v: Tensor1<f32>,
}

#[attention_variant(name = "head_scales")]
impl AttentionVariant for HeadScales {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit * (self.q[at.qo_head] * self.k[at.kv_head])
    }

    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, at: RowIndex) {
        let scale = self.v[at.kv_head];
        o.map(|_, x| x * scale);
    }
}

fn one_a_query_head(_: &HeadScales, dims: &Dims) -> Vec<f32> {
    ones(dims.qo_heads)
}

fn one_a_kv_head(_: &HeadScales, dims: &Dims) -> Vec<f32> {
    ones(dims.kv_heads)
}

fn ones(heads: Option<i64>) -> Vec<f32> {
    vec![1.0; heads.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::VariantParams;

    #[test]
    fn the_formula() {
        let mut scales =
            HeadScales { k: Tensor1::from([9.0, 0.5]), v: Tensor1::from([9.0, 4.0]), ..HeadScales::default() };
        scales.bind(&Dims { qo_heads: Some(4), kv_heads: Some(2), ..Dims::default() }).expect("valid");
        let row = RowIndex { qo_head: 3, kv_head: 1, ..RowIndex::default() };
        assert_eq!(scales.logits_transform(3.0, LogitIndex { row, ..LogitIndex::default() }), 1.5);
        let mut o = [0.25f32];
        let state = RowState { row_max: 0.0, denominator: 1.0, lse: 0.0 };
        scales.output_transform(&mut o.as_mut_slice(), state, row);
        assert_eq!(o, [1.0]);
    }
}
