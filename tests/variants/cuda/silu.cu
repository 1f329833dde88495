#line _ "variant"
namespace lang {

/// SiLU attention: the SiLU of a logit is its weight, with no sum over the others.
///
/// `O = sum_j silu(logit_j) v_j / n` with `silu(x) = x sigmoid(x)`: the pointwise attention of HSTU (arXiv 2402.17152),
/// whose logits `q . k` have no factor, so give the attention a scale of 1; its bias by position is `relative_bias`.
/// Weights may be negative. A composition has one normaliser, so it takes no sink and no second normaliser.
struct Silu {
  int n_;

#line _ "variants/src/normalizer/silu.rs"
  ATTN_FN float weight(float logit, float _row_max, LogitIndex at) const {
    const int count = n_ > 0 ? n_ : at.kv_len;
    return logit * recip(1.0f + exp(-logit)) * (1.0f / float(count));
  }
#line _ "variant"
};
