#line _ "variant"
namespace lang {

/// FlashMask: two intervals of queries that do not see a key, for each key.
///
/// A query does not attend to key `j` where `lower_start[j] <= qo_pos < lower_end[j]` or
/// `upper_start[j] <= qo_pos < upper_end[j]` (arXiv 2410.01359). In the paper the first interval lies below the
/// diagonal and the second above it; neither is required here. Causal, document, prefix and shared-question masks have
/// this form.
struct FlashMask {
  Tensor1<int> lower_start_;
  TensorBounds lower_start_range_;
  Tensor1<int> lower_end_;
  TensorBounds lower_end_range_;
  Tensor1<int> upper_start_;
  TensorBounds upper_start_range_;
  Tensor1<int> upper_end_;
  TensorBounds upper_end_range_;

#line _ "variants/src/masks/flash_mask.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const int key = at.kv_token;
    const bool below = lower_start_[key] <= at.qo_pos && at.qo_pos < lower_end_[key];
    const bool above = upper_start_[key] <= at.qo_pos && at.qo_pos < upper_end_[key];
    return !below && !above;
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto kv_token = interval::coordinate(at.kv_token_min, at.kv_token_max);
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    return interval::tristate(interval::both(interval::bit_not(interval::both(interval::le(interval_of(lower_start_, lower_start_range_, kv_token), qo_pos), interval::lt(qo_pos, interval_of(lower_end_, lower_end_range_, kv_token)))), interval::bit_not(interval::both(interval::le(interval_of(upper_start_, upper_start_range_, kv_token), qo_pos), interval::lt(qo_pos, interval_of(upper_end_, upper_end_range_, kv_token))))));
  }
#line _ "variant"
};
