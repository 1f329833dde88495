#line _ "variant"
namespace lang {

/// Token list: each query attends to the keys that its own list names, and reads no others.
///
/// Keys are at the positions `tokens[qo_token, n]`, `n < count[qo_token]`, in any order, each once, for all heads alike: the top keys of an
/// indexer, as in DeepSeek sparse attention (arXiv 2512.02556), where there are 2048 of them. An indexer that looks at later keys
/// too is composed with `causal`.
struct TokenList {
  int max_tokens_;
  Tensor2<int> tokens_;
  Tensor1<int> count_;

#line _ "variants/src/token_list.rs"
  ATTN_FN int kv_list_len(RowIndex at) const {
    return count_[at.qo_token];
  }

#line _ "variants/src/token_list.rs"
  ATTN_FN int kv_list_block(RowIndex at, int n) const {
    return tokens_(at.qo_token, n);
  }
#line _ "variant"
};
