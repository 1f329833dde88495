#line _ "variant"
namespace lang {

/// Batches in one sequence: blocks of positions that are sequences of their own, all of one length.
///
/// Attends where `qo_pos / block == kv_pos / block`; under `remap(batchify(block=..), inner)` the hooks of `inner` see positions
/// within the block (FlexAttention, arXiv 2412.05496, nests masks so).
struct Batchify {
  int block_;
  Divisor<int> block_div_;

#line _ "variants/src/batchify.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return div_by(at.qo_pos, block_div_) == div_by(at.kv_pos, block_div_);
  }

#line _ "variants/src/batchify.rs"
  ATTN_FN int remap_qo_pos(RowIndex at) const {
    return rem_by(at.qo_pos, block_div_);
  }

#line _ "variants/src/batchify.rs"
  ATTN_FN int remap_kv_pos(KvIndex at) const {
    return rem_by(at.kv_pos, block_div_);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    const auto v1 = range::of(block_);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    return range::tri(range::eq(range::div(qo_pos, v1), range::div(kv_pos, v1)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return range::bounds(range::dividends(range::only(div(at.qo_pos, block_)), block_));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tile remap_over(const Tile& at) const {
    Tile to = at;
    {
      const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
      range::set_word(to.qo_pos_min, to.qo_pos_max, range::rem(qo_pos, range::of(block_)));
    }
    {
      const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
      range::set_word(to.kv_pos_min, to.kv_pos_max, range::rem(kv_pos, range::of(block_)));
    }
    return to;
  }
#line _ "variant"
};
