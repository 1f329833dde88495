#line _ "variant"
namespace lang {

/// Global tokens and a window: tokens see near keys and global tokens; global tokens see everything.
///
/// Attends where `|qo_pos - kv_pos| <= window`, or the query is a global token, or the key is (Longformer, arXiv
/// 2004.05150, section 3.1; BigBird, arXiv 2007.14062, without its random keys).
struct GlobalWindow {
  int window_;
  Tensor1<bool> of_query_;
  TensorBounds of_query_range_;
  Tensor1<bool> of_key_;
  TensorBounds of_key_range_;

#line _ "variants/src/masks/global_window.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const bool near = abs(at.qo_pos - at.kv_pos) <= window_;
    return near || of_query_[at.qo_token] || of_key_[at.kv_token];
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
    const auto kv_token = interval::coordinate(at.kv_token_min, at.kv_token_max);
    return interval::tristate(interval::either(interval::either(interval::le(interval::abs(interval::sub(qo_pos, kv_pos)), interval::of(window_)), interval_of(of_query_, of_query_range_, qo_token)), interval_of(of_key_, of_key_range_, kv_token)));
  }
#line _ "variant"
};
