#line _ "variant"
namespace lang {

/// Block causal: a query attends to all of its own block and to the blocks before it.
///
/// Attends where `kv_pos / block <= qo_pos / block`: frames of a video that are generated one after the other (MAGI-1, arXiv
/// 2505.13211), blocks of a diffusion language model (BD3-LM, arXiv 2503.09573). `block = 1` is `causal`.
struct BlockCausal {
  int block_;
  Divisor<int> block_div_;

#line _ "variants/src/block_causal.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return div_by(at.kv_pos, block_div_) <= div_by(at.qo_pos, block_div_);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto v1 = range::of(block_);
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    return range::tri(range::le(range::div(kv_pos, v1), range::div(qo_pos, v1)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return range::bounds(range::dividends(range::up_to(div(at.qo_pos, block_)), block_));
  }
#line _ "variant"
};
