#line _ "variant"
namespace lang {

/// Streaming: the first keys of the sequence and a causal window.
///
/// Attends where `kv_pos <= qo_pos`, and `kv_pos < sink` or `qo_pos - kv_pos < window` (StreamingLLM, arXiv 2309.17453). `sink` keys
/// stay for ever; they are keys with values, unlike the logit of the variant `sink`.
struct Streaming {
  int sink_;
  int window_;

#line _ "variants/src/streaming.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return at.kv_pos <= at.qo_pos && (at.kv_pos < sink_ || at.qo_pos - at.kv_pos < window_);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    return range::tri(range::both(range::le(kv_pos, qo_pos), range::either(range::lt(kv_pos, range::of(sink_)), range::lt(range::sub(qo_pos, kv_pos), range::of(window_)))));
  }
#line _ "variant"
};
