#line _ "variant"
namespace lang {

/// Bidirectional window: a query attends to keys near it on both sides.
///
/// Attends where `qo_pos - left <= kv_pos <= qo_pos + right`: `left + 1 + right` keys, the query's own among them. This is the
/// local attention of encoders (Longformer, arXiv 2004.05150, section 3.1); `right = 0` is a causal window of `left + 1` keys.
struct BidirectionalWindow {
  int left_;
  int right_;

#line _ "variants/src/bidirectional_window.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return at.qo_pos - at.kv_pos <= left_ && at.kv_pos - at.qo_pos <= right_;
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    return range::tri(range::both(range::le(range::sub(qo_pos, kv_pos), range::of(left_)), range::le(range::sub(kv_pos, qo_pos), range::of(right_))));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return range::bounds(range::meet(range::mirrored(range::up_to(left_), at.qo_pos), range::shifted(range::up_to(right_), at.qo_pos)));
  }
#line _ "variant"
};
