#line _ "variant"
namespace lang {

/// Block diffusion: blocks of noisy tokens that see themselves and the clean blocks before them.
///
/// The sequence is `length` noisy tokens, then the same `length` tokens clean, both in blocks of `block`. A noisy block sees itself
/// and the clean blocks before it; a clean block sees clean blocks up to itself (training of BD3-LM, arXiv 2503.09573,
/// appendix B.6). Positions run over both halves: `2 * length` of them.
struct BlockDiffusion {
  int length_;
  int block_;
  Divisor<int> length_div_;
  Divisor<int> block_div_;

#line _ "variants/src/block_diffusion.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const bool clean_query = at.qo_pos >= length_;
    const bool clean_key = at.kv_pos >= length_;
    const int query_block = div_by(rem_by(at.qo_pos, length_div_), block_div_);
    const int key_block = div_by(rem_by(at.kv_pos, length_div_), block_div_);
    if (!clean_key) {
      return !clean_query && key_block == query_block;
    } else if (clean_query) {
      return key_block <= query_block;
    } else {
      return key_block < query_block;
    }
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    const auto v1 = range::of(length_);
    const auto v2 = range::ge(qo_pos, v1);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto v6 = range::of(block_);
    const auto v7 = range::div(range::rem(qo_pos, v1), v6);
    const auto v9 = range::div(range::rem(kv_pos, v1), v6);
    return range::tri(range::select(range::bit_not(range::ge(kv_pos, v1)), range::both(range::bit_not(v2), range::eq(v9, v7)), range::select(v2, range::le(v9, v7), range::lt(v9, v7))));
  }
#line _ "variant"
};
