#line _ "variant"
namespace lang {

/// Rotary embedding by a given table of cosines and sines.
///
/// As `rope`, where pair `i` of a row at position `p` is rotated by `(cos[p, i], sin[p, i])`: for frequencies that
/// change with the position (LongRoPE, arXiv 2402.13753), for positions of several axes, and for tables that a model
/// computes itself. Tables may include a scale. Values from `rotary_dim` on stay; positions past the table use its last
/// row.
struct RopeTable {
  int positions_;
  int rotary_dim_;
  alignas(4) bool interleaved_;
  Tensor2<float> cos_;
  Tensor2<float> sin_;

#line _ "variants/src/rotary/rope_table.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const {
    const int pos = at.qo_pos;
    if (interleaved_) {
      q.rotate_pairs(rotary_dim_, [&](int i) -> Pair { return Pair{cos_(pos, i), sin_(pos, i)}; });
    } else {
      q.rotate_half(rotary_dim_, [&](int i) -> Pair { return Pair{cos_(pos, i), sin_(pos, i)}; });
    }
  }

#line _ "variants/src/rotary/rope_table.rs"
  template <class R> ATTN_FN void key_transform(R& k, KvIndex at) const {
    const int pos = at.kv_pos;
    if (interleaved_) {
      k.rotate_pairs(rotary_dim_, [&](int i) -> Pair { return Pair{cos_(pos, i), sin_(pos, i)}; });
    } else {
      k.rotate_half(rotary_dim_, [&](int i) -> Pair { return Pair{cos_(pos, i), sin_(pos, i)}; });
    }
  }
#line _ "variant"
};
