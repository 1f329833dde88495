#line _ "variant"
namespace lang {

/// Retention: logits are weights as they are, and fade with distance; compose it with `causal`.
///
/// `w_j = logit_j * exp(log_decay[qo_head] * (qo_pos - kv_pos))` and `O = sum_j w_j v_j / max(|sum_j w_j|, 1)`: RetNet
/// in its parallel form, with the score normalisation of section 2.1 (arXiv 2307.08621). The default decays are the
/// paper's, `ln(1 - 2^(-5 - h))` for head `h`. There is no row max: LSE is the logarithm of the sum, or `-inf` if the
/// sum is not positive.
struct Retention {
  Tensor1<float> log_decay_;

#line _ "variants/src/normalizer/retention.rs"
  ATTN_FN float weight(float logit, float _row_max, LogitIndex at) const {
    return logit * exp(log_decay_[at.qo_head] * -at.kv_pos_minus(at.qo_pos));
  }

#line _ "variants/src/normalizer/retention.rs"
  template <class R> ATTN_FN void output_transform(R& o, RowState state, RowIndex _at) const {
    const float inv = 1.0f / max(abs(state.denominator), 1.0f);
    o.map([&](int, float x) -> float { return x * inv; });
  }
#line _ "variant"
};
