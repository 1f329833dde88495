#line _ "variant"
namespace lang {

/// Chunks: a query attends to the keys of its own chunk of the sequence.
///
/// Attends where `qo_pos / chunk == kv_pos / chunk`. Composed with `causal` it is the local attention of Llama 4
/// (`attention_chunk_size`, 8192); it is the block-local attention of arXiv 1904.10509, section 4.2.
struct Chunked {
  int chunk_;
  Divisor<int> chunk_div_;

#line _ "variants/src/masks/chunked.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return div_by(at.qo_pos, chunk_div_) == div_by(at.kv_pos, chunk_div_);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    const auto v1 = interval::of(chunk_);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    return interval::tristate(interval::eq(interval::div(qo_pos, v1), interval::div(kv_pos, v1)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return interval::bounds(interval::dividends(interval::only(div(at.qo_pos, chunk_)), chunk_));
  }
#line _ "variant"
};
