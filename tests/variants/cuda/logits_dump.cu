#line _ "variant"
namespace lang {

/// Logits dump: logits are written out, as the parts before it leave them.
///
/// `logits[qo_token, qo_head, kv_pos] = logit`; the attention output does not change. Elements of masked logits are
/// unspecified, since skipped tiles write nothing. For plotting attention maps (arXiv 1909.11218) and for tests.
struct LogitsDump {
  int columns_;
  OutTensor3 logits_;

#line _ "variants/src/output/logits_dump.rs"
  ATTN_FN float logits_transform(Logit logit, LogitIndex at) const {
    logits_.store(float(logit), at.qo_token, at.qo_head, at.kv_pos);
    return float(logit);
  }
#line _ "variant"
};
