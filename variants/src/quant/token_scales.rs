use attn::lang::{AttentionVariant, KvIndex, LogitIndex, Row, Tensor2};
use attn::{VariantParams, attention_variant};

/// Scales per token of quantised keys and values.
///
/// `logit * k[kv_token, kv_head]` and `v * v_scale[kv_token, kv_head]`: a stored element is the true one divided by the
/// scale of its token and head (KVQuant, arXiv 2401.18079; SageAttention, arXiv 2410.02367). Keys need no preprocessing
/// pass. The tables are indexed by logical position, as packed keys are: gather the scales of a paged cache first.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct TokenScales {
    /// Scale of each key, per token and KV head.
    #[shape(kv_tokens, kv_heads)]
    #[require(k.as_slice().iter().all(|x| x.is_finite()))]
    pub k: Tensor2<f32>,
    /// Scale of each value, per token and KV head.
    #[shape(kv_tokens, kv_heads)]
    #[require(v.as_slice().iter().all(|x| x.is_finite()))]
    pub v: Tensor2<f32>,
}

#[attention_variant(name = "token_scales")]
impl AttentionVariant for TokenScales {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit * self.k[[at.kv_token, at.kv_head]]
    }

    fn value_transform<R: Row>(&self, v: &mut R, at: KvIndex) {
        let scale = self.v[[at.kv_token, at.kv_head]];
        v.map(|_, x| x * scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::RowIndex;

    #[test]
    fn the_formula() {
        let table = |values: [f32; 4]| Tensor2::new(values.to_vec(), [2, 2]).expect("four");
        let scales = TokenScales { k: table([1.0, 2.0, 4.0, 8.0]), v: table([0.5, 0.25, 0.125, 3.0]) };
        let row = RowIndex { kv_head: 1, ..RowIndex::default() };
        assert_eq!(scales.logits_transform(1.5, LogitIndex { row, kv_token: 0, ..LogitIndex::default() }), 3.0);
        let mut v = [2.0f32, -1.0];
        scales.value_transform(&mut v.as_mut_slice(), KvIndex { kv_head: 1, kv_token: 1, ..KvIndex::default() });
        assert_eq!(v, [6.0, -3.0]);
    }
}
