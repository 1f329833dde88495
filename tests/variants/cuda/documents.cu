#line _ "variant"
namespace lang {

/// Documents: tokens attend to the tokens of their own document.
///
/// Attends where `of_query[qo_token] == of_key[kv_token]`: texts packed into one sequence do not attend to each other
/// (Llama 3, arXiv 2407.21783, section 3.2). Compose it with `causal`. `causal_documents` is the cheaper form of that
/// composition; `packed_documents` also counts positions from the start of each document.
struct Documents {
  Tensor1<int> of_query_;
  TensorBounds of_query_range_;
  Tensor1<int> of_key_;
  TensorBounds of_key_range_;

#line _ "variants/src/masks/documents.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return of_query_[at.qo_token] == of_key_[at.kv_token];
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
    const auto kv_token = interval::coordinate(at.kv_token_min, at.kv_token_max);
    return interval::tristate(interval::eq(interval_of(of_query_, of_query_range_, qo_token), interval_of(of_key_, of_key_range_, kv_token)));
  }
#line _ "variant"
};
