#line _ "variant"
namespace lang {

/// Block sparse: each block of queries attends to the blocks of keys that its row of a matrix names.
///
/// Queries of a request are cut into blocks of `q_block`, keys into blocks of `kv_block`, neither a power of two; block of queries `i` of
/// request `b` and KV head `g` attends to the blocks `blocks[begin[g, r] + n]`, `n < count[g, r]`, `r = first[b] + i`, in any order, each
/// once. `kv_block = 1` is vector-sparse. One head's lists serve all where `heads = 1`; queries past a request's last row attend to nothing. These are the matrices of
/// FlashInfer's block-sparse wrappers (arXiv 2501.01005); they are made by `from_bsr`, `from_block_map` and `variable`, which check them.
struct BlockSparse {
  int q_block_;
  int kv_block_;
  int heads_;
  int rows_;
  int entries_;
  Tensor1<int> first_;
  Tensor2<int> begin_;
  Tensor2<int> count_;
  Tensor1<int> blocks_;
  Divisor<int> q_block_div_;

#line _ "variants/src/block_sparse.rs"
  ATTN_FN int kv_list_len(RowIndex at) const {
    const int row = add(first_[at.batch], div_by(at.qo_row, q_block_div_));
    return row < first_[at.batch + 1] ? count_(at.kv_head, row) : 0;
  }

#line _ "variants/src/block_sparse.rs"
  ATTN_FN int kv_list_block(RowIndex at, int n) const {
    return blocks_[add(begin_(at.kv_head, add(first_[at.batch], div_by(at.qo_row, q_block_div_))), n)];
  }

#line _ "variants/src/block_sparse.rs"
  ATTN_FN int kv_list_block_size() const {
    return kv_block_;
  }

#line _ "variants/src/block_sparse.rs"
  ATTN_FN int kv_list_queries() const {
    return q_block_;
  }
#line _ "variant"
};
