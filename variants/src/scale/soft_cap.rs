use attn::lang::{AttentionVariant, LogitIndex, approx};
use attn::{VariantParams, attention_variant};

/// Soft cap: logits are squeezed smoothly into `(-cap, cap)`.
///
/// `cap * tanh(logit / cap)` (Gemma 2, arXiv 2408.00118, with a cap of 50 on attention logits).
///
/// The hyperbolic tangent is [`approx::tanh`], one instruction on the GPU with a relative error up to 2^-11, so a logit
/// near a cap of 50 moves by up to 0.024. The accurate `tanh` costs several times as much per logit; a variant that
/// calls `.tanh()` instead takes five lines. The division is a multiplication by `1 / cap`.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct SoftCap {
    /// Bound on the magnitude of a logit, in natural-log units.
    #[require(cap > 0.0 && cap.is_finite())]
    pub cap: f32,
}

#[attention_variant(name = "soft_cap")]
impl AttentionVariant for SoftCap {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let inv = 1.0 / self.cap;
        self.cap * approx::tanh(logit * inv)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::{BindError, Dims, VariantParams};

    #[test]
    fn the_formula() {
        let soft_cap = SoftCap { cap: 30.0 };
        for logit in [-1e4f32, -31.0, -0.25, 0.0, 1.5, 29.0, 80.0] {
            let want = 30.0 * (f64::from(logit) / 30.0).tanh();
            let got = f64::from(soft_cap.logits_transform(logit, LogitIndex::default()));
            assert!((got - want).abs() <= 1e-5 * want.abs(), "{logit}: {got} is not {want}");
        }
    }

    #[test]
    fn invalid_caps_are_refused() {
        for cap in [0.0, -30.0, f32::NAN, f32::INFINITY] {
            let error = SoftCap { cap }.bind(&Dims::default()).expect_err("not a cap");
            assert!(matches!(error, BindError::Require { .. }), "{error}");
        }
    }
}
