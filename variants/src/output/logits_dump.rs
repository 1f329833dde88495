use attn::lang::{AttentionVariant, LogitIndex, OutTensor3};
use attn::{VariantParams, attention_variant};

/// Logits dump: logits are written out, as the parts before it leave them.
///
/// `logits[qo_token, qo_head, kv_pos] = logit`; the attention output does not change. Elements of masked logits are
/// unspecified, since skipped tiles write nothing. For plotting attention maps (arXiv 1909.11218) and for tests.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct LogitsDump {
    /// Keys per row; logits of later keys are not written.
    #[require(columns >= 1)]
    pub columns: i32,
    /// The logits, in natural-log units.
    #[shape(qo_tokens, qo_heads, columns)]
    pub logits: OutTensor3,
}

#[attention_variant(name = "logits_dump")]
impl AttentionVariant for LogitsDump {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        self.logits.store([at.qo_token, at.qo_head, at.kv_pos], logit);
        logit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_stored_by_token_head_and_key() {
        let dump = LogitsDump { columns: 2, logits: OutTensor3::new([2, 2, 2]).expect("eight") };
        let mut at = crate::testing::at(0, 1);
        (at.row.qo_token, at.row.qo_head) = (1, 0);
        assert_eq!(dump.logits_transform(0.5, at), 0.5);
        at.kv_pos = 2;
        assert_eq!(dump.logits_transform(9.0, at), 9.0, "past the last column");
        assert_eq!(dump.logits.to_vec(), [0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0]);
    }
}
