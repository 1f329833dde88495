use attn::lang::{AttentionVariant, RowIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Attention sink: a learnt logit per head enters the denominator, with no value behind it.
///
/// `O = sum_j exp(logit_j) v_j / (exp(logits[qo_head]) + sum_j exp(logit_j))`, as in gpt-oss (arXiv 2508.10925). A row
/// without keys gives O = 0 and LSE = the sink's logit. `-inf` is a head without a sink.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Sink {
    /// The sink's logit for each query head, in natural-log units; not scaled by `sm_scale`.
    #[shape(qo_heads)]
    #[require(logits.as_slice().iter().all(|&x| x < f32::INFINITY))]
    pub logits: Tensor1<f32>,
}

#[attention_variant(name = "sink")]
impl AttentionVariant for Sink {
    fn sink_logit(&self, at: RowIndex) -> f32 {
        self.logits[at.qo_head]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::Variant;
    use attn::lang::{BindError, Dims, VariantParams};

    #[test]
    fn sinks_have_one_logit_per_head_and_add_up() {
        let at = RowIndex { qo_head: 1, ..RowIndex::default() };
        let sink = |x: f32| Sink { logits: Tensor1::from([9.0, x]) };
        assert_eq!(AttentionVariant::sink_logit(&sink(0.5), at), 0.5);
        let both = Variant::from(sink(0.5)).and(sink(-2.0)).expect("sinks go together");
        let want = (0.5f64.exp() + (-2.0f64).exp()).ln();
        assert!((f64::from(both.sink_logit(at)) - want).abs() < 1e-6);
        let none = Variant::from(sink(f32::NEG_INFINITY)).and(sink(f32::NEG_INFINITY)).expect("sinks go together");
        assert_eq!(none.sink_logit(at), f32::NEG_INFINITY);
    }

    #[test]
    fn nan_and_infinite_logits_are_refused() {
        for logit in [f32::NAN, f32::INFINITY] {
            let error = Sink { logits: Tensor1::from([logit]) }.bind(&Dims::default()).expect_err("not a logit");
            assert!(matches!(error, BindError::Require { .. }), "{error}");
        }
    }

    #[test]
    fn logits_must_be_given() {
        let error = Sink { logits: Tensor1::unset() }.bind(&Dims::default()).expect_err("unset");
        assert_eq!(error, BindError::Unset { name: "logits".to_owned() });
    }
}
