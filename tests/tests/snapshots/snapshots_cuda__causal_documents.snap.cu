#line _ "variant"
namespace lang {

/// Causal packed documents: keys from the start of the query's document up to the query.
///
/// Attends where `start[qo_token] <= kv_pos <= qo_pos` (Llama 3, arXiv 2407.21783, section 3.2). It says what
/// `causal + documents(..)` says, by one interval of keys a row: no table is read for a key.
struct CausalDocuments {
  Tensor1<int> start_;
  TableRange start_range_;

#line _ "variants/src/causal_documents.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return start_[at.qo_token] <= at.kv_pos && at.kv_pos <= at.qo_pos;
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_token = range::word(at.qo_token_min, at.qo_token_max);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    return range::tri(range::both(range::le(range_of(start_, start_range_, qo_token), kv_pos), range::le(kv_pos, qo_pos)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return range::bounds(range::meet(range::from(start_[(at.qo_token)]), range::up_to(at.qo_pos)));
  }
#line _ "variant"
};
