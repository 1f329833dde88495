#line _ "variant"
namespace lang {

/// Block mask: a table says which blocks of queries attend to which blocks of keys.
///
/// Attends where `blocks[batch, qo_head, qo_row / q_block, kv_pos / kv_block]`: the blocks that a router chose, as in MoBA (arXiv
/// 2502.13189) and in the selected branch of NSA (arXiv 2502.11089), with `q_block = 1`, or a fixed pattern (BigBird, arXiv
/// 2007.14062). Blocks that no row of a tile attends to are skipped. Compose it with `causal`.
struct BlockMask {
  int q_block_;
  int kv_block_;
  int q_blocks_;
  int kv_blocks_;
  Tensor4<bool> blocks_;
  TableRange blocks_range_;
  Divisor<int> q_block_div_;
  Divisor<int> kv_block_div_;

#line _ "variants/src/block_mask.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return blocks_(at.batch, at.qo_head, div_by(at.qo_row, q_block_div_), div_by(at.kv_pos, kv_block_div_));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto batch = range::of(at.batch);
    const auto qo_head = range::word(at.qo_head_min, at.qo_head_max);
    const auto qo_row = range::word(at.qo_row_min, at.qo_row_max);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    return range::tri(range_of(blocks_, blocks_range_, batch, qo_head, range::div(qo_row, range::of(q_block_)), range::div(kv_pos, range::of(kv_block_))));
  }
#line _ "variant"
};
