#line _ "variant"
namespace lang {

/// Chunks: a query attends to the keys of its own chunk of the sequence.
///
/// Attends where `qo_pos / chunk == kv_pos / chunk`. Compose it with `causal` for the local layers of Llama 4 (`attention_chunk_size`,
/// 8192); the block-local attention of arXiv 1904.10509, section 4.2.
struct Chunked {
  int chunk_;
  Divisor<int> chunk_div_;

#line _ "variants/src/chunked.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return div_by(at.qo_pos, chunk_div_) == div_by(at.kv_pos, chunk_div_);
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    const auto v1 = range::of(chunk_);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    return range::tri(range::eq(range::div(qo_pos, v1), range::div(kv_pos, v1)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return range::bounds(range::dividends(range::only(div(at.qo_pos, chunk_)), chunk_));
  }
#line _ "variant"
};
