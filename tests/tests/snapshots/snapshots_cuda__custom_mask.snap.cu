#line _ "variant"
namespace lang {

/// A mask of one's own: one bit for each query and key of each request.
///
/// Attends where bit `offset[batch] + qo_row * kv_len + kv_pos` is set: the packed masks of FlashInfer (arXiv 2501.01005), with
/// `offset` in bits, and little-endian bits. Nothing else is known of it, so most tiles are masked bit by bit: where a
/// formula says the same, write the formula.
struct CustomMask {
  int size_;
  Tensor1<PackedBits> bits_;
  TableRange bits_range_;
  Tensor1<int> offset_;
  TableRange offset_range_;

#line _ "variants/src/custom_mask.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    return bits_[add(add(offset_[at.batch], mul(at.qo_row, at.kv_len)), at.kv_pos)];
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto batch = range::of(at.batch);
    const auto qo_row = range::word(at.qo_row_min, at.qo_row_max);
    const auto kv_len = range::of(at.kv_len);
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    return range::tri(range_of(bits_, bits_range_, range::add(range::add(range_of(offset_, offset_range_, batch), range::mul(qo_row, kv_len)), kv_pos)));
  }
#line _ "variant"
};
