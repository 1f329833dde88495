#line _ "variant"
namespace lang {

/// Image spans: causal, but the tokens of an image see all of their image.
///
/// Attends where `kv_pos <= qo_pos`, or where `of_query[qo_token] == of_key[kv_token] >= 0` (PaliGemma, arXiv
/// 2407.07726; Gemma 3, arXiv 2503.19786). The causal part is included: composing it with `causal` leaves only
/// `causal`.
struct ImageSpans {
  Tensor1<int> of_query_;
  TensorBounds of_query_range_;
  Tensor1<int> of_key_;
  TensorBounds of_key_range_;

#line _ "variants/src/masks/image_spans.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const auto query = of_query_[at.qo_token];
    const auto key = of_key_[at.kv_token];
    return at.kv_pos <= at.qo_pos || (query >= 0 && key >= 0 && query == key);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
    const auto v1 = interval_of(of_query_, of_query_range_, qo_token);
    const auto kv_token = interval::coordinate(at.kv_token_min, at.kv_token_max);
    const auto v3 = interval_of(of_key_, of_key_range_, kv_token);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    return interval::tristate(interval::either(interval::le(kv_pos, qo_pos), interval::both(interval::both(interval::ge(v1, interval::of(0)), interval::ge(v3, interval::of(0))), interval::eq(v1, v3))));
  }
#line _ "variant"
};
