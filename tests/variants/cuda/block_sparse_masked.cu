#line _ "variant"
namespace lang {

/// Block sparse with masks: blocks as in `block_sparse`, and a bit for each logit of each block.
///
/// The bits of a row start at `first_bit[g, r]`. They are a row-major matrix of `q_block` queries by the keys of the
/// row's list: FlashInfer's packed masks, whose rows begin at whole bytes (arXiv 2501.01005). `from_bsr` and `variable`
/// make them. Where every bit is set, `block_sparse` computes the same and is faster.
struct BlockSparseMasked {
  int q_block_;
  int kv_block_;
  int heads_;
  int rows_;
  int entries_;
  int size_;
  Tensor1<int> first_;
  Tensor2<int> begin_;
  Tensor2<int> count_;
  Tensor2<int> first_bit_;
  Tensor1<int> blocks_;
  Tensor1<PackedBits> bits_;
  Divisor<int> q_block_div_;
  Divisor<int> kv_block_div_;

#line _ "variants/src/sparse/block_sparse_masked.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const int row = add(first_[at.batch], div_by(at.qo_row, q_block_div_));
    const int keys = mul(count_(at.kv_head, row), kv_block_);
    const int column = add(mul(at.kv_slot, kv_block_), rem_by(at.kv_pos, kv_block_div_));
    return bits_[add(add(first_bit_(at.kv_head, row), mul(rem_by(at.qo_row, q_block_div_), keys)), column)];
  }

#line _ "variants/src/sparse/block_sparse_masked.rs"
  ATTN_FN int kv_list_len(RowIndex at) const {
    const int row = add(first_[at.batch], div_by(at.qo_row, q_block_div_));
    return row < first_[at.batch + 1] ? count_(at.kv_head, row) : 0;
  }

#line _ "variants/src/sparse/block_sparse_masked.rs"
  ATTN_FN int kv_list_block(RowIndex at, int n) const {
    return blocks_[add(begin_(at.kv_head, add(first_[at.batch], div_by(at.qo_row, q_block_div_))), n)];
  }

#line _ "variants/src/sparse/block_sparse_masked.rs"
  ATTN_FN int kv_list_block_size() const {
    return kv_block_;
  }

#line _ "variants/src/sparse/block_sparse_masked.rs"
  ATTN_FN int kv_list_queries() const {
    return q_block_;
  }
#line _ "variant"
};
