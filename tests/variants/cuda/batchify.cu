#line _ "variant"
namespace lang {

/// Batches in one sequence: blocks of positions that are sequences of their own, all of one length.
///
/// Attends where `qo_pos / block == kv_pos / block`. Under `remap(batchify(block=..), inner)` the hooks of `inner` see
/// `qo_pos % block` and `kv_pos % block` (FlexAttention, arXiv 2412.05496, nests masks like this).
struct Batchify {
  int block_;
  Divisor<int> block_div_;

#line _ "variants/src/remap/batchify.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return div_by(at.qo_pos, block_div_) == div_by(at.kv_pos, block_div_);
  }

#line _ "variants/src/remap/batchify.rs"
  ATTN_FN int remap_qo_pos(RowIndex at) const {
    return rem_by(at.qo_pos, block_div_);
  }

#line _ "variants/src/remap/batchify.rs"
  ATTN_FN int remap_kv_pos(KvIndex at) const {
    return rem_by(at.kv_pos, block_div_);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    const auto v1 = interval::of(block_);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    return interval::tristate(interval::eq(interval::div(qo_pos, v1), interval::div(kv_pos, v1)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return interval::bounds(interval::dividends(interval::only(div(at.qo_pos, block_)), block_));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tile remap_over(const Tile& at) const {
    Tile to = at;
    {
      const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
      interval::set_coordinate(to.qo_pos_min, to.qo_pos_max, interval::rem(qo_pos, interval::of(block_)));
    }
    {
      const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
      interval::set_coordinate(to.kv_pos_min, to.kv_pos_max, interval::rem(kv_pos, interval::of(block_)));
    }
    return to;
  }
#line _ "variant"
};
