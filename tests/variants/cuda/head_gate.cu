#line _ "variant"
namespace lang {

/// Head gate: each head's output is multiplied by the sigmoid of a gate of its query.
///
/// `o * sigmoid(gate[qo_token, qo_head])`, on the finished output: gated attention with one gate per head (arXiv
/// 2505.06708). Gates are logits, indexed like queries.
struct HeadGate {
  Tensor2<Bf16> gate_;

#line _ "variants/src/output/head_gate.rs"
  template <class R> ATTN_FN void output_transform(R& o, RowState _state, RowIndex at) const {
    const float open = recip(1.0f + exp(-gate_(at.qo_token, at.qo_head)));
    o.map([&](int, float x) -> float { return x * open; });
  }
#line _ "variant"
};
