#line _ "variant"
namespace lang {

/// Sigmoid attention: each key is weighted by itself, with no sum over the others.
///
/// `O = sum_j sigmoid(logit_j + bias) v_j`, without a denominator (arXiv 2409.04431, where `bias = -ln(n)` for `n` keys
/// keeps the sum of the weights near that of a softmax). A composition has one normaliser, so it takes no sink and no
/// second normaliser.
struct Sigmoid {
  float bias_;

#line _ "variants/src/normalizer/sigmoid.rs"
  ATTN_FN float weight(float logit, float _row_max, LogitIndex _at) const {
    return recip(1.0f + exp(-(logit + bias_)));
  }
#line _ "variant"
};
