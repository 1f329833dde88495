#line _ "variant"
namespace lang {

/// Streaming: the first keys of the sequence and a causal window.
///
/// Attends where `kv_pos <= qo_pos`, and `kv_pos < sink` or `qo_pos - kv_pos < window` (StreamingLLM, arXiv
/// 2309.17453). The `sink` keys have values, unlike the logit of the variant `sink`.
struct Streaming {
  int sink_;
  int window_;

#line _ "variants/src/masks/streaming.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return bool((at.kv_pos <= at.qo_pos) & ((at.kv_pos < sink_) | (at.qo_pos - at.kv_pos < window_)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    return interval::tristate(interval::both(interval::le(kv_pos, qo_pos), interval::either(interval::lt(kv_pos, interval::of(sink_)), interval::lt(interval::sub(qo_pos, kv_pos), interval::of(window_)))));
  }
#line _ "variant"
};
