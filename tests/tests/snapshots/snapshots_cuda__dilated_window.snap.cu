#line _ "variant"
namespace lang {

/// Dilated window: a query attends to every `dilation`-th key near it, on both sides.
///
/// Attends where `|qo_pos - kv_pos| <= window` and `|qo_pos - kv_pos|` is a multiple of `dilation` (Longformer, arXiv 2004.05150,
/// section 3.1). Compose it with `causal` for the keys up to the query alone.
struct DilatedWindow {
  int window_;
  int dilation_;
  Divisor<int> dilation_div_;

#line _ "variants/src/dilated_window.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const int distance = abs(at.qo_pos - at.kv_pos);
    return distance <= window_ && rem_by(distance, dilation_div_) == 0;
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto v3 = range::abs(range::sub(qo_pos, kv_pos));
    return range::tri(range::both(range::le(v3, range::of(window_)), range::eq(range::rem(v3, range::of(dilation_)), range::of(0))));
  }
#line _ "variant"
};
