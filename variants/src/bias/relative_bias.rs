use attn::lang::{AttentionVariant, LogitIndex, Tensor2};
use attn::{VariantParams, attention_variant};

/// Relative bias: a learnt number for each head and clamped distance is added to logits.
///
/// `logit + table[qo_head, clamp(kv_pos - qo_pos, -max_distance, max_distance) + max_distance]`: Shaw et al. (arXiv
/// 1803.02155) and its descendants that add a scalar, as Swin does along one axis (arXiv 2103.14030) and Sandwich with
/// a fixed table (arXiv 2212.10356). Column `max_distance` is the query's own key; keys further away than
/// `max_distance` share the first and the last column.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct RelativeBias {
    /// Largest distance that has a column of its own, in positions.
    #[require(max_distance >= 0 && max_distance < 1 << 24)]
    pub max_distance: i32,
    /// Added to the logits of each query head, in natural-log units.
    #[shape(qo_heads, 2 * max_distance + 1)]
    #[require(table.as_slice().iter().all(|x| x.is_finite()))]
    pub table: Tensor2<f32>,
}

#[attention_variant(name = "relative_bias")]
impl AttentionVariant for RelativeBias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let distance = (at.kv_pos - at.qo_pos).clamp(-self.max_distance, self.max_distance);
        logit + self.table[[at.qo_head, distance + self.max_distance]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::{BindError, Dims, VariantParams};

    fn table(heads: usize, columns: usize) -> Tensor2<f32> {
        Tensor2::new((0..heads * columns).map(|i| i as f32).collect(), [heads, columns]).expect("as many as there are")
    }

    #[test]
    fn the_formula() {
        let bias = RelativeBias { max_distance: 2, table: table(3, 5) };
        let added = |qo_head, qo_pos, kv_pos| {
            let mut at = crate::testing::at(qo_pos, kv_pos);
            at.row.qo_head = qo_head;
            bias.logits_transform(0.5, at) - 0.5
        };
        assert_eq!([0, 8, 9, 10, 11, 12, 99].map(|kv_pos| added(0, 10, kv_pos)), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 4.0]);
        assert_eq!(added(2, 10, 10), 12.0);
    }

    #[test]
    fn table_has_two_columns_per_distance_and_one() {
        let mut bias = RelativeBias { max_distance: 2, table: table(3, 4) };
        let error = bias.bind(&Dims { qo_heads: Some(3), ..Dims::default() }).expect_err("four columns");
        assert!(matches!(&error, BindError::Shape { want, .. } if *want == [3, 5]), "{error}");
    }
}
