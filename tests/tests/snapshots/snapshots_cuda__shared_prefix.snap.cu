#line _ "variant"
namespace lang {

/// Shared prefixes: documents that are causal in themselves and see all of a prefix that others see.
///
/// With `d` the document of the query and `p = prefix_of[d]`, attends where `offsets[d] <= kv_pos <= qo_pos`, or, if `p` is not `d`
/// itself, where `offsets[p] <= kv_pos < offsets[p + 1]` (shared prompts in one packed sequence: Hydragen, arXiv 2402.05099).
struct SharedPrefix {
  int documents_;
  Tensor1<int> of_query_;
  TableRange of_query_range_;
  Tensor1<int> offsets_;
  TableRange offsets_range_;
  Tensor1<int> prefix_of_;
  TableRange prefix_of_range_;

#line _ "variants/src/shared_prefix.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const int document = of_query_[at.qo_token];
    const int prefix = prefix_of_[document];
    const bool own = offsets_[document] <= at.kv_pos && at.kv_pos <= at.qo_pos;
    const bool shared = offsets_[prefix] <= at.kv_pos && at.kv_pos < offsets_[add(prefix, 1)];
    return own || (document != prefix && shared);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_token = range::word(at.qo_token_min, at.qo_token_max);
    const auto v1 = range_of(of_query_, of_query_range_, qo_token);
    const auto v2 = range_of(prefix_of_, prefix_of_range_, v1);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    return range::tri(range::either(range::both(range::le(range_of(offsets_, offsets_range_, v1), kv_pos), range::le(kv_pos, qo_pos)), range::both(range::ne(v1, v2), range::both(range::le(range_of(offsets_, offsets_range_, v2), kv_pos), range::lt(kv_pos, range_of(offsets_, offsets_range_, range::add(v2, range::of(1))))))));
  }
#line _ "variant"
};
