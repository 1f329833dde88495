#line _ "variant"
namespace lang {

/// Prefix LM: a prompt that sees all of itself, then causal.
///
/// Attends where `kv_pos < prefix[batch]` or `kv_pos <= qo_pos` (T5, arXiv 1910.10683, section 3.2.1). The causal part
/// is included: composing it with `causal` leaves only `causal`.
struct PrefixLm {
  Tensor1<int> prefix_;
  TensorBounds prefix_range_;

#line _ "variants/src/masks/prefix_lm.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return bool((at.kv_pos < prefix_[at.batch]) | (at.kv_pos <= at.qo_pos));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto batch = interval::of(at.batch);
    const auto qo_pos = interval::coordinate(at.qo_pos_min, at.qo_pos_max);
    return interval::tristate(interval::either(interval::lt(kv_pos, interval_of(prefix_, prefix_range_, batch)), interval::le(kv_pos, qo_pos)));
  }

#line _ "derived from logits_mask"
  ATTN_FN Bounds kv_bounds(const RowIndex& at) const {
    return interval::bounds(interval::join(interval::up_to(i64(prefix_[(at.batch)]) - 1), interval::up_to(at.qo_pos)));
  }
#line _ "variant"
};
