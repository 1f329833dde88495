#line _ "variant"
namespace lang {

/// Causal mask: a query attends to the keys up to its own position.
///
/// Attends where `kv_pos <= qo_pos`. Positions are absolute: the last query of a request is aligned with its last key,
/// in prefill, chunked prefill and decode alike ("Attention Is All You Need", arXiv 1706.03762, section 3.2.3).
struct Causal {

#line _ "variants/src/masks/causal.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return at.kv_pos <= at.qo_pos;
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    return interval::tristate(interval::le(kv_pos, qo_pos));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return interval::bounds(interval::up_to(at.qo_pos));
  }
#line _ "variant"
};
