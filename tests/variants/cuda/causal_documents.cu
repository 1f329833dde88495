#line _ "variant"
namespace lang {

/// Causal packed documents: keys from the start of the query's document up to the query.
///
/// Attends where `start[qo_token] <= kv_pos <= qo_pos` (Llama 3, arXiv 2407.21783, section 3.2). The result equals
/// `causal + documents(..)`, but each row attends to one interval of keys, so no table is read per key.
struct CausalDocuments {
  Tensor1<int> start_;
  TensorBounds start_range_;

#line _ "variants/src/masks/causal_documents.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return bool((start_[at.qo_token] <= at.kv_pos) & (at.kv_pos <= at.qo_pos));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    return interval::tristate(interval::both(interval::le(interval_of(start_, start_range_, qo_token), kv_pos), interval::le(kv_pos, qo_pos)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return interval::bounds(interval::meet(interval::from(start_[(at.qo_token)]), interval::up_to(at.qo_pos)));
  }
#line _ "variant"
};
