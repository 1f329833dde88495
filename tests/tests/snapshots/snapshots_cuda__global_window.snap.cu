#line _ "variant"
namespace lang {

/// Global tokens and a window: tokens see near keys and global tokens; global tokens see everything.
///
/// Attends where `|qo_pos - kv_pos| <= window`, or the query is a global token, or the key is (Longformer, arXiv 2004.05150,
/// section 3.1; BigBird, arXiv 2007.14062, without its random keys).
struct GlobalWindow {
  int window_;
  Tensor1<bool> of_query_;
  TableRange of_query_range_;
  Tensor1<bool> of_key_;
  TableRange of_key_range_;

#line _ "variants/src/global_window.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const bool near = abs(at.qo_pos - at.kv_pos) <= window_;
    return near || of_query_[at.qo_token] || of_key_[at.kv_token];
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto qo_token = range::word(at.qo_token_min, at.qo_token_max);
    const auto kv_token = range::word(at.kv_token_min, at.kv_token_max);
    return range::tri(range::either(range::either(range::le(range::abs(range::sub(qo_pos, kv_pos)), range::of(window_)), range_of(of_query_, of_query_range_, qo_token)), range_of(of_key_, of_key_range_, kv_token)));
  }
#line _ "variant"
};
