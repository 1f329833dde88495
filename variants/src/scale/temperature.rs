use attn::lang::{AttentionVariant, Row, RowIndex};
use attn::{VariantParams, attention_variant};

/// Temperature by position: queries far into a text attend more sharply.
///
/// `q * (1 + attn_scale * ln(1 + floor((qo_pos + 1) / floor_scale)))`: Llama 4 in its layers without positional
/// embeddings, for texts longer than those of training (after arXiv 2501.19399). Parameters are named as in the model's
/// configuration.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Temperature {
    /// Positions per step of the temperature.
    #[default(8192)]
    #[require(floor_scale > 0)]
    pub floor_scale: i32,
    /// Factor of the logarithm.
    #[default(0.1)]
    #[require(attn_scale.is_finite())]
    pub attn_scale: f32,
}

#[attention_variant(name = "temperature")]
impl AttentionVariant for Temperature {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let steps = (at.qo_pos + 1) / self.floor_scale;
        let scale = ((steps + 1) as f32).ln() * self.attn_scale + 1.0;
        q.map(|_, x| x * scale);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let temperature = Temperature { floor_scale: 100, attn_scale: 0.3 };
        for qo_pos in [0, 98, 99, 100, 198, 199, 123_456] {
            let mut q = [1.0f32];
            temperature.query_transform(&mut q.as_mut_slice(), RowIndex { qo_pos, ..RowIndex::default() });
            let want = (f64::from(qo_pos + 1) / 100.0).floor().ln_1p() * f64::from(0.3f32) + 1.0;
            assert!((f64::from(q[0]) - want).abs() <= 1e-6 * want, "{qo_pos}: {} is not {want}", q[0]);
        }
    }
}
