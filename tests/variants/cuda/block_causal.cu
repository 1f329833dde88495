#line _ "variant"
namespace lang {

/// Block causal: a query attends to all of its own block and to the blocks before it.
///
/// Attends where `kv_pos / block <= qo_pos / block`. Used for video frames that are generated one after the other
/// (MAGI-1, arXiv 2505.13211) and for the blocks of a diffusion language model (BD3-LM, arXiv 2503.09573). `block = 1`
/// is `causal`.
struct BlockCausal {
  int block_;
  Divisor<int> block_div_;

#line _ "variants/src/masks/block_causal.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return div_by(at.kv_pos, block_div_) <= div_by(at.qo_pos, block_div_);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto v1 = interval::of(block_);
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    return interval::tristate(interval::le(interval::div(kv_pos, v1), interval::div(qo_pos, v1)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return interval::bounds(interval::dividends(interval::up_to(div(at.qo_pos, block_)), block_));
  }
#line _ "variant"
};
