#line _ "variant"
namespace lang {

/// Shared prefixes: documents that are causal in themselves and see all of a prefix that others see.
///
/// Let `d = of_query[qo_token]` and `p = prefix_of[d]`. Attends where `offsets[d] <= kv_pos <= qo_pos`, or, if
/// `p != d`, where `offsets[p] <= kv_pos < offsets[p + 1]` (shared prompts in one packed sequence: Hydragen, arXiv
/// 2402.05099).
struct SharedPrefix {
  int documents_;
  Tensor1<int> of_query_;
  TensorBounds of_query_range_;
  Tensor1<int> offsets_;
  TensorBounds offsets_range_;
  Tensor1<int> prefix_of_;
  TensorBounds prefix_of_range_;

#line _ "variants/src/masks/shared_prefix.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const int document = of_query_[at.qo_token];
    const int prefix = prefix_of_[document];
    const bool own = bool((offsets_[document] <= at.kv_pos) & (at.kv_pos <= at.qo_pos));
    const bool shared = offsets_[prefix] <= at.kv_pos && at.kv_pos < offsets_[add(prefix, 1)];
    return own || (document != prefix && shared);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
    const auto v1 = interval_of(of_query_, of_query_range_, qo_token);
    const auto v2 = interval_of(prefix_of_, prefix_of_range_, v1);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    return interval::tristate(interval::either(interval::both(interval::le(interval_of(offsets_, offsets_range_, v1), kv_pos), interval::le(kv_pos, qo_pos)), interval::both(interval::ne(v1, v2), interval::both(interval::le(interval_of(offsets_, offsets_range_, v2), kv_pos), interval::lt(kv_pos, interval_of(offsets_, offsets_range_, interval::add(v2, interval::of(1))))))));
  }
#line _ "variant"
};
