#line _ "variant"
namespace lang {

/// A mask of one's own: one bit for each query and key of each request.
///
/// Attends where bit `offset[batch] + qo_row * kv_len + kv_pos` is set. These are the packed masks of FlashInfer (arXiv
/// 2501.01005): bits are little-endian, and `offset` counts bits. The tile classifier knows nothing of the bits, so
/// most tiles are masked element by element; where a formula says the same, write the formula.
struct CustomMask {
  int size_;
  Tensor1<PackedBits> bits_;
  TensorBounds bits_range_;
  Tensor1<int> offset_;
  TensorBounds offset_range_;

#line _ "variants/src/masks/custom_mask.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return bits_[add(add(offset_[at.batch], mul(at.qo_row, at.kv_len)), at.kv_pos)];
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto batch = interval::of(at.batch);
    const auto qo_row = interval::coordinate(at.qo_row_min, at.qo_row_max);
    const auto kv_len = interval::of(at.kv_len);
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    return interval::tristate(interval_of(bits_, bits_range_, interval::add(interval::add(interval_of(offset_, offset_range_, batch), interval::mul(qo_row, kv_len)), kv_pos)));
  }
#line _ "variant"
};
