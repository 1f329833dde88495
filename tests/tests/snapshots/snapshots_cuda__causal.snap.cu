#line _ "variant"
namespace lang {

/// Causal mask: a query attends to the keys up to its own position.
///
/// Attends where `kv_pos <= qo_pos`. Positions are absolute, so that the last query of a request stands at its last
/// key, in prefill, chunked prefill and decode alike ("Attention Is All You Need", arXiv 1706.03762, section 3.2.3).
struct Causal {

#line _ "variants/src/causal.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return at.kv_pos <= at.qo_pos;
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    return range::tri(range::le(kv_pos, qo_pos));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return range::bounds(range::up_to(at.qo_pos));
  }
#line _ "variant"
};
