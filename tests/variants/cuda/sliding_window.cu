#line _ "variant"
namespace lang {

/// Sliding window: a query attends to the last `window` keys, including its own.
///
/// Attends where `qo_pos - kv_pos < window` (Longformer, arXiv 2004.05150; Mistral 7B, arXiv 2310.06825, whose
/// `sliding_window = 4096` is the same number here).
///
/// Keys *newer* than the query are not masked: compose it with `causal`. Together they leave
/// `max(0, qo_pos - window + 1) ..= qo_pos`, which is `window` keys. A window of 1 leaves the query's own key. A window
/// of 0 masks that key too: alone it leaves the newer keys; with `causal` it leaves nothing, and every output row is
/// zero.
struct SlidingWindow {
  int window_;

#line _ "variants/src/masks/sliding_window.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return at.qo_pos - at.kv_pos < window_;
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    return interval::tristate(interval::lt(interval::sub(qo_pos, kv_pos), interval::of(window_)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return interval::bounds(interval::mirrored(interval::up_to(i64(window_) - 1), at.qo_pos));
  }
#line _ "variant"
};
