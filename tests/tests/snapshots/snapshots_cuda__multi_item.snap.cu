#line _ "variant"
namespace lang {

/// Multi-item scoring: a prompt, then items that see the prompt and themselves, and not each other.
///
/// Items follow the prompt, each opened by a delimiter. Attends, among `kv_pos <= qo_pos`, where `kv_pos < prefix_len[batch]` or
/// `kv_pos > item_start[qo_token]`: no token of an item sees a delimiter, nor a delimiter itself (FlashInfer, arXiv 2501.01005, whose
/// `token_pos_in_items` is `qo_pos - item_start`).
struct MultiItem {
  Tensor1<int> prefix_len_;
  TableRange prefix_len_range_;
  Tensor1<int> item_start_;
  TableRange item_start_range_;

#line _ "variants/src/multi_item.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const bool same_item = at.kv_pos > item_start_[at.qo_token];
    return at.kv_pos <= at.qo_pos && (at.kv_pos < prefix_len_[at.batch] || same_item);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto qo_token = range::word(at.qo_token_min, at.qo_token_max);
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    const auto batch = range::of(at.batch);
    return range::tri(range::both(range::le(kv_pos, qo_pos), range::either(range::lt(kv_pos, range_of(prefix_len_, prefix_len_range_, batch)), range::gt(kv_pos, range_of(item_start_, item_start_range_, qo_token)))));
  }
#line _ "variant"
};
