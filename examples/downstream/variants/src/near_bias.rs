use attn::lang::Dims;
use attn::prelude::*;

/// Near keys of the query's own document, each with a bias that its head has learnt for its distance.
#[derive(Clone, Debug, VariantParams)]
pub struct NearBias {
    /// How many keys back a query sees, including its own.
    #[default(128)]
    #[require(reach >= 1)]
    pub reach: i32,
    /// For each query token, the position in its request where its document starts.
    #[shape(qo_tokens)]
    pub start: Tensor1<i32>,
    /// What is added to a logit, for each query head and distance.
    #[shape(qo_heads, reach)]
    #[default(fading)]
    #[require(bias.values().all(|x| x.is_finite()))]
    pub bias: Tensor2<f16>,
}

#[attention_variant(name = "near_bias")]
impl AttentionVariant for NearBias {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let back = at.qo_pos - at.kv_pos;
        0 <= back && back < self.reach && self.start[at.qo_token] <= at.kv_pos
    }

    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.bias[[at.qo_head, at.qo_pos - at.kv_pos]]
    }
}

/// The bias where none is given: far keys count less, for the first heads above all.
fn fading(p: &NearBias, dims: &Dims) -> Vec<f32> {
    let heads = dims.qo_heads.unwrap_or(0);
    (0..heads).flat_map(|head| (0..p.reach).map(move |back| -(back as f32) / (head + 8) as f32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    attn_testing::variant_test!(NearBias { reach: 100, start: Tensor1::unset(), bias: Tensor2::unset() });
}
