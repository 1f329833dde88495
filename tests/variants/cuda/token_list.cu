#line _ "variant"
namespace lang {

/// Token list: each query attends to the keys that its own list names, and reads no others.
///
/// Attends to the keys at positions `tokens[qo_token, n]`, `n < count[qo_token]`, in any order, each at most once, for
/// all heads alike. These are the top keys of an indexer, as in DeepSeek sparse attention (arXiv 2512.02556), which
/// takes 2048. Compose it with `causal` if the indexer may name later keys.
struct TokenList {
  int max_tokens_;
  Tensor2<int> tokens_;
  Tensor1<int> count_;

#line _ "variants/src/sparse/token_list.rs"
  ATTN_FN int kv_list_len(RowIndex at) const {
    return count_[at.qo_token];
  }

#line _ "variants/src/sparse/token_list.rs"
  ATTN_FN int kv_list_block(RowIndex at, int n) const {
    return tokens_(at.qo_token, n);
  }
#line _ "variant"
};
