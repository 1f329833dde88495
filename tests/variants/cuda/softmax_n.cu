#line _ "variant"
namespace lang {

/// Softmax-n: `n` is added to the denominator, so that a head may attend to nothing.
///
/// `O = sum_j exp(logit_j) v_j / (n + sum_j exp(logit_j))`: softmax-1 ("Attention Is Off By One", 2023; the zero sink
/// of arXiv 2309.17453) for `n = 1`, softmax itself for `n = 0`. It is a sink of logit `ln(n)`, and LSE includes it.
struct SoftmaxN {
  float n_;

#line _ "variants/src/normalizer/softmax_n.rs"
  ATTN_FN float sink_logit(RowIndex _at) const {
    return ln(n_);
  }
#line _ "variant"
};
