#line _ "variant"
namespace lang {

/// ALiBi: logits get a penalty that grows linearly with the distance of the key.
///
/// `logit + slope[qo_head] * (kv_pos - qo_pos)` (arXiv 2108.12409). The default slopes are the paper's. For `n` heads,
/// `n` a power of two, they are `2^(-8 (h + 1) / n)`. For other `n` they are those of the power of two below, then
/// every other one of the power of two above, as in the authors' code and in BLOOM.
struct Alibi {
  Tensor1<float> slopes_;

#line _ "variants/src/bias/alibi.rs"
  ATTN_FN float logits_transform(Logit logit, LogitIndex at) const {
    return float(logit) + slopes_[at.qo_head] * at.kv_pos_minus(at.qo_pos);
  }

#line _ "variants/src/bias/alibi.rs"
  ATTN_FN auto logits_bias(LogitIndex at) const {
    return KeyTerm(slopes_[at.qo_head], at.kv_pos_minus(at.qo_pos));
  }

#line _ "variants/src/bias/alibi.rs"
  ATTN_FN float logits_slope(LogitIndex at) const {
    return float(slopes_[at.qo_head]);
  }
#line _ "variant"
};
