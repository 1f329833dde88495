#line _ "variant"
namespace lang {

/// Documents: tokens attend to the tokens of their own document.
///
/// Attends where `of_query[qo_token] == of_key[kv_token]`: several texts packed into one sequence stay apart (Llama 3, arXiv
/// 2407.21783, section 3.2). Compose it with `causal`; where positions count from the start of the document, see
/// `packed_documents`, and for causal packed documents as cheap as `causal`, `causal_documents`.
struct Documents {
  Tensor1<int> of_query_;
  TableRange of_query_range_;
  Tensor1<int> of_key_;
  TableRange of_key_range_;

#line _ "variants/src/documents.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return of_query_[at.qo_token] == of_key_[at.kv_token];
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_token = range::word(at.qo_token_min, at.qo_token_max);
    const auto kv_token = range::word(at.kv_token_min, at.kv_token_max);
    return range::tri(range::eq(range_of(of_query_, of_query_range_, qo_token), range_of(of_key_, of_key_range_, kv_token)));
  }
#line _ "variant"
};
