#line _ "variant"
namespace lang {

/// Block diffusion: blocks of noisy tokens that see themselves and the clean blocks before them.
///
/// The sequence is `length` noisy tokens, then the same `length` tokens clean, both in blocks of `block`, so positions
/// run to `2 * length`. A noisy block sees itself and the clean blocks before it; a clean block sees the clean blocks
/// up to itself (training of BD3-LM, arXiv 2503.09573, appendix B.6).
struct BlockDiffusion {
  int length_;
  int block_;
  Divisor<int> length_div_;
  Divisor<int> block_div_;

#line _ "variants/src/masks/block_diffusion.rs"
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
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    const auto v1 = interval::of(length_);
    const auto v2 = interval::ge(qo_pos, v1);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto v6 = interval::of(block_);
    const auto v7 = interval::div(interval::rem(qo_pos, v1), v6);
    const auto v9 = interval::div(interval::rem(kv_pos, v1), v6);
    return interval::tristate(interval::select(interval::bit_not(interval::ge(kv_pos, v1)), interval::both(interval::bit_not(v2), interval::eq(v9, v7)), interval::select(v2, interval::le(v9, v7), interval::lt(v9, v7))));
  }
#line _ "variant"
};
