#line _ "variant"
namespace lang {

/// Block mask: a table says which blocks of queries attend to which blocks of keys.
///
/// Attends where `blocks[batch, qo_head, qo_row / q_block, kv_pos / kv_block]`. The table holds the blocks that a
/// router chose, with `q_block = 1`, as in MoBA (arXiv 2502.13189) and in the selected branch of NSA (arXiv
/// 2502.11089), or a fixed pattern (BigBird, arXiv 2007.14062). A tile whose blocks are all unset is skipped. Compose
/// it with `causal`.
struct BlockMask {
  int q_block_;
  int kv_block_;
  int q_blocks_;
  int kv_blocks_;
  Tensor4<bool> blocks_;
  TensorBounds blocks_range_;
  Divisor<int> q_block_div_;
  Divisor<int> kv_block_div_;

#line _ "variants/src/masks/block_mask.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return blocks_(at.batch, at.qo_head, div_by(at.qo_row, q_block_div_), div_by(at.kv_pos, kv_block_div_));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto batch = interval::of(at.batch);
    const auto qo_head = interval::coordinate(at.qo_head_min, at.qo_head_max);
    const auto qo_row = interval::coordinate(at.qo_row_min, at.qo_row_max);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    return interval::tristate(interval_of(blocks_, blocks_range_, batch, qo_head, interval::div(qo_row, interval::of(q_block_)), interval::div(kv_pos, interval::of(kv_block_))));
  }
#line _ "variant"
};
