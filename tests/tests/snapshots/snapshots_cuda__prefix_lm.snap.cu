#line _ "variant"
namespace lang {

/// Prefix LM: a prompt that sees all of itself, then causal.
///
/// Attends where `kv_pos < prefix[batch]` or `kv_pos <= qo_pos` (T5, arXiv 1910.10683, section 3.2.1). The causal part is in
/// here: composing it with `causal` would leave nothing of the prefix.
struct PrefixLm {
  Tensor1<int> prefix_;
  TableRange prefix_range_;

#line _ "variants/src/prefix_lm.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return at.kv_pos < prefix_[at.batch] || at.kv_pos <= at.qo_pos;
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto batch = range::of(at.batch);
    const auto qo_pos = range::word(at.qo_pos_min, at.qo_pos_max);
    return range::tri(range::either(range::lt(kv_pos, range_of(prefix_, prefix_range_, batch)), range::le(kv_pos, qo_pos)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return range::bounds(range::hull(range::up_to(range::i64(prefix_[(at.batch)]) - 1), range::up_to(at.qo_pos)));
  }
#line _ "variant"
};
