#line _ "variant"
namespace lang {

/// FlashMask: two intervals of queries that do not see a key, for each key.
///
/// A query does not see key `j` where `lower_start[j] <= qo_pos < lower_end[j]` or `upper_start[j] <= qo_pos < upper_end[j]` (arXiv
/// 2410.01359, where the first interval lies below the diagonal, and the second above; nothing here asks for that). Most masks of
/// training fit: causal, documents, prefixes, shared questions.
struct FlashMask {
  Tensor1<int> lower_start_;
  TableRange lower_start_range_;
  Tensor1<int> lower_end_;
  TableRange lower_end_range_;
  Tensor1<int> upper_start_;
  TableRange upper_start_range_;
  Tensor1<int> upper_end_;
  TableRange upper_end_range_;

#line _ "variants/src/flash_mask.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const int key = at.kv_token;
    const bool below = lower_start_[key] <= at.qo_pos && at.qo_pos < lower_end_[key];
    const bool above = upper_start_[key] <= at.qo_pos && at.qo_pos < upper_end_[key];
    return !below && !above;
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto kv_token = range::word(at.kv_token_min, at.kv_token_max);
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    return range::tri(range::both(range::bit_not(range::both(range::le(range_of(lower_start_, lower_start_range_, kv_token), qo_pos), range::lt(qo_pos, range_of(lower_end_, lower_end_range_, kv_token)))), range::bit_not(range::both(range::le(range_of(upper_start_, upper_start_range_, kv_token), qo_pos), range::lt(qo_pos, range_of(upper_end_, upper_end_range_, kv_token))))));
  }
#line _ "variant"
};
