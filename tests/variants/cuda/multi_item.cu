#line _ "variant"
namespace lang {

/// Multi-item scoring: a prompt, then items that see the prompt and themselves, and not each other.
///
/// Items follow the prompt, each opened by a delimiter. Attends where `kv_pos <= qo_pos` and either
/// `kv_pos < prefix_len[batch]` or `kv_pos > item_start[qo_token]`: no token attends to a delimiter, nor does a
/// delimiter to itself (FlashInfer, arXiv 2501.01005, whose `token_pos_in_items` is `qo_pos - item_start`).
struct MultiItem {
  Tensor1<int> prefix_len_;
  TensorBounds prefix_len_range_;
  Tensor1<int> item_start_;
  TensorBounds item_start_range_;

#line _ "variants/src/masks/multi_item.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const bool same_item = at.kv_pos > item_start_[at.qo_token];
    return at.kv_pos <= at.qo_pos && (at.kv_pos < prefix_len_[at.batch] || same_item);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    const auto batch = interval::of(at.batch);
    return interval::tristate(interval::both(interval::le(kv_pos, qo_pos), interval::either(interval::lt(kv_pos, interval_of(prefix_len_, prefix_len_range_, batch)), interval::gt(kv_pos, interval_of(item_start_, item_start_range_, qo_token)))));
  }
#line _ "variant"
};
