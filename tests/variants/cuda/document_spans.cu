#line _ "variant"
namespace lang {

/// Documents by their spans: a query attends to the keys between two positions of its own.
///
/// Attends where `start[qo_token] <= kv_pos < end[qo_token]`. For texts packed into one sequence (Llama 3, arXiv
/// 2407.21783, section 3.2) it equals `documents`, but each row attends to one interval of keys, so no table is read
/// per key. Compose it with `causal`. Any other interval per query works as well, such as windows of different lengths.
struct DocumentSpans {
  Tensor1<int> start_;
  TensorBounds start_range_;
  Tensor1<int> end_;
  TensorBounds end_range_;

#line _ "variants/src/masks/document_spans.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return start_[at.qo_token] <= at.kv_pos && at.kv_pos < end_[at.qo_token];
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    return interval::tristate(interval::both(interval::le(interval_of(start_, start_range_, qo_token), kv_pos), interval::lt(kv_pos, interval_of(end_, end_range_, qo_token))));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return interval::bounds(interval::meet(interval::from(start_[(at.qo_token)]), interval::up_to(i64(end_[(at.qo_token)]) - 1)));
  }
#line _ "variant"
};
