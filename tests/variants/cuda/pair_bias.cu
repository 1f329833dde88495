#line _ "variant"
namespace lang {

/// Pair bias: a number for each request, head, query and key is added to logits.
///
/// `logit + bias[batch, qo_head, qo_row, kv_pos]`. With `output_gate` it is the triangle and pair-biased attention of
/// AlphaFold (Nature 596, 583; arXiv 2404.11068 on its kernels). The tensor is as large as the logits, and each element
/// is read once. Queries and keys past its rows and columns use the last ones.
struct PairBias {
  int rows_;
  int columns_;
  Tensor4<Bf16> bias_;

#line _ "variants/src/bias/pair_bias.rs"
  ATTN_FN float logits_transform(Logit logit, LogitIndex at) const {
    return float(logit) + bias_(at.batch, at.qo_head, at.qo_row, at.kv_pos);
  }

#line _ "variants/src/bias/pair_bias.rs"
  ATTN_FN auto logits_bias(LogitIndex at) const {
    return float(bias_(at.batch, at.qo_head, at.qo_row, at.kv_pos));
  }

#line _ "variants/src/bias/pair_bias.rs"
  ATTN_FN auto logits_bias_row(LogitIndex at) const {
    return bias_.row(at.batch, at.qo_head, at.qo_row);
  }
#line _ "variant"
};
