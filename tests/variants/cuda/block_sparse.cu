#line _ "variant"
namespace lang {

/// Block sparse: each block of queries attends to the blocks of keys that its row of a matrix names.
///
/// A request's queries are cut into blocks of `q_block`, its keys into blocks of `kv_block`; neither need be a power of
/// two. Query block `i` of request `b` is row `r = first[b] + i`. On KV head `g` it attends to the key blocks
/// `blocks[begin[g, r] + n]` for `n < count[g, r]`, in any order, each at most once. `kv_block = 1` is vector-sparse.
/// With `heads = 1` one head's lists serve all. Queries past a request's last row attend to nothing.
///
/// These are the matrices of FlashInfer's block-sparse wrappers (arXiv 2501.01005). `from_bsr`, `from_block_map` and
/// `variable` make them, and check their arrays.
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

#line _ "variants/src/sparse/block_sparse.rs"
  ATTN_FN int kv_list_len(RowIndex at) const {
    const int row = add(first_[at.batch], div_by(at.qo_row, q_block_div_));
    return row < first_[at.batch + 1] ? count_(at.kv_head, row) : 0;
  }

#line _ "variants/src/sparse/block_sparse.rs"
  ATTN_FN int kv_list_block(RowIndex at, int n) const {
    return blocks_[add(begin_(at.kv_head, add(first_[at.batch], div_by(at.qo_row, q_block_div_))), n)];
  }

#line _ "variants/src/sparse/block_sparse.rs"
  ATTN_FN int kv_list_block_size() const {
    return kv_block_;
  }

#line _ "variants/src/sparse/block_sparse.rs"
  ATTN_FN int kv_list_queries() const {
    return q_block_;
  }
#line _ "variant"
};
