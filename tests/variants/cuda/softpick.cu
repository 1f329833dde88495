#line _ "variant"
namespace lang {

/// Softpick: a softmax that gives nothing to negative logits, and whose weights need not sum to one.
///
/// `w_j = max(exp(logit_j) - 1, 0) / sum_k |exp(logit_k) - 1|` (arXiv 2504.20966), without the paper's epsilon: a row
/// whose logits are all zero gives 0. LSE is the logarithm of the denominator. Both sums are scaled by `exp(-m)`, where
/// `m` is the largest logit, or 0 if that is less.
struct Softpick {

#line _ "variants/src/normalizer/softpick.rs"
  ATTN_FN float weight(float logit, float row_max, LogitIndex _at) const {
    return max(exp(logit - row_max) - exp(-row_max), 0.0f);
  }

#line _ "variants/src/normalizer/softpick.rs"
  ATTN_FN float denominator(float logit, float row_max, float _weight, LogitIndex _at) const {
    return abs(exp(logit - row_max) - exp(-row_max));
  }
#line _ "variant"
};
