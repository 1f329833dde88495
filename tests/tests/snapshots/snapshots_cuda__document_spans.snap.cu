#line _ "variant"
namespace lang {

/// Documents by their spans: a query attends to the keys between two positions of its own.
///
/// Attends where `start[qo_token] <= kv_pos < end[qo_token]`. It says what `documents` says of texts packed into one sequence (Llama 3,
/// arXiv 2407.21783, section 3.2), by one interval of keys a row: no table is read for a key, which makes it the cheaper one. Compose it
/// with `causal`; any other intervals will do as well, such as windows that differ from query to query.
struct DocumentSpans {
  Tensor1<int> start_;
  TableRange start_range_;
  Tensor1<int> end_;
  TableRange end_range_;

#line _ "variants/src/document_spans.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return start_[at.qo_token] <= at.kv_pos && at.kv_pos < end_[at.qo_token];
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_token = range::word(at.qo_token_min, at.qo_token_max);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    return range::tri(range::both(range::le(range_of(start_, start_range_, qo_token), kv_pos), range::lt(kv_pos, range_of(end_, end_range_, qo_token))));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return range::bounds(range::meet(range::from(start_[(at.qo_token)]), range::up_to(range::i64(end_[(at.qo_token)]) - 1)));
  }
#line _ "variant"
};
