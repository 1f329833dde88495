#line _ "variant"
namespace lang {

/// Dilated window: a query attends to every `dilation`-th key near it, on both sides.
///
/// Attends where `|qo_pos - kv_pos| <= window` and `|qo_pos - kv_pos|` is a multiple of `dilation` (Longformer, arXiv
/// 2004.05150, section 3.1). Compose it with `causal` to attend to keys up to the query alone.
struct DilatedWindow {
  int window_;
  int dilation_;
  Divisor<int> dilation_div_;

#line _ "variants/src/masks/dilated_window.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const int distance = abs(at.qo_pos - at.kv_pos);
    return distance <= window_ && rem_by(distance, dilation_div_) == 0;
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto v3 = interval::abs(interval::sub(qo_pos, kv_pos));
    return interval::tristate(interval::both(interval::le(v3, interval::of(window_)), interval::eq(interval::rem(v3, interval::of(dilation_)), interval::of(0))));
  }
#line _ "variant"
};
