#line _ "variant"
namespace lang {

/// Bidirectional window: a query attends to keys near it on both sides.
///
/// Attends where `qo_pos - left <= kv_pos <= qo_pos + right`: `left + 1 + right` keys, the query's own included. This
/// is the local attention of encoders (Longformer, arXiv 2004.05150, section 3.1). `right = 0` is a causal window of
/// `left + 1` keys.
struct BidirectionalWindow {
  int left_;
  int right_;

#line _ "variants/src/masks/bidirectional_window.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return bool((at.qo_pos - at.kv_pos <= left_) & (at.kv_pos - at.qo_pos <= right_));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    return interval::tristate(interval::both(interval::le(interval::sub(qo_pos, kv_pos), interval::of(left_)), interval::le(interval::sub(kv_pos, qo_pos), interval::of(right_))));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return interval::bounds(interval::meet(interval::mirrored(interval::up_to(left_), at.qo_pos), interval::shifted(interval::up_to(right_), at.qo_pos)));
  }
#line _ "variant"
};
