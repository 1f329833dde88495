#line _ "variant"
namespace lang {

/// Soft cap: logits are squeezed smoothly into `(-cap, cap)`.
///
/// `cap * tanh(logit / cap)` (Gemma 2, arXiv 2408.00118, with a cap of 50 on attention logits).
///
/// The hyperbolic tangent is [`approx::tanh`], one instruction on the GPU with a relative error up to 2^-11, so a logit
/// near a cap of 50 moves by up to 0.024. The accurate `tanh` costs several times as much per logit; a variant that
/// calls `.tanh()` instead takes five lines. The division is a multiplication by `1 / cap`.
struct SoftCap {
  float cap_;

#line _ "variants/src/scale/soft_cap.rs"
  ATTN_FN float logits_transform(Logit logit, LogitIndex _at) const {
    const float inv = 1.0f / cap_;
    return cap_ * approx_tanh(logit * inv);
  }

#line _ "variants/src/scale/soft_cap.rs"
  ATTN_FN float logits_bound() const {
    return bound::magnitude(bound::mul(bound::exactly(cap_), bound::within(1.0005f)));
  }
#line _ "variant"
};
