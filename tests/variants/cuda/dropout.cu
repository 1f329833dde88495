#line _ "variant"
namespace lang {

/// Dropout: probabilities are zeroed at random, and the others grow to make up for it.
///
/// `O = sum_j p_j keep_j v_j / (1 - rate)` with `p = softmax(logits)`; `keep_j` is 0 with probability `rate`, else 1
/// (arXiv 1207.0580; on attention probabilities, arXiv 1706.03762). LSE is that of all keys. `keep` is a function of
/// `seed`, request, query head and the two positions, by a counter-based generator, so it does not depend on the
/// kernel, its tiles, or the device.
struct Dropout {
  float rate_;
  u32 seed_;

#line _ "variants/src/normalizer/dropout.rs"
  ATTN_FN float weight(float logit, float row_max, LogitIndex at) const {
    const u32 stream = (u32(at.batch) << 16) ^ u32(at.qo_head);
    const bool dropped = random::uniform(seed_, stream, u32(at.qo_pos), u32(at.kv_pos)) < rate_;
    const float grown = 1.0f / (1.0f - rate_);
    return dropped ? 0.0f : exp(logit - row_max) * grown;
  }

#line _ "variants/src/normalizer/dropout.rs"
  ATTN_FN float denominator(float logit, float row_max, float _weight, LogitIndex _at) const {
    return exp(logit - row_max);
  }
#line _ "variant"
};
