#line _ "variant"
namespace lang {

/// Output gate: every value of the output is multiplied by the sigmoid of a gate of its own.
///
/// `o[d] * sigmoid(gate[qo_token, qo_head, d])`, on the finished output (gated attention, arXiv 2505.06708, in
/// Qwen3-Next; AlphaFold's attention, with `pair_bias`). Gates are logits, indexed like queries.
struct OutputGate {
  Tensor3<Bf16> gate_;

#line _ "variants/src/output/output_gate.rs"
  template <class R> ATTN_FN void output_transform(R& o, RowState _state, RowIndex at) const {
    o.zip([&](int d) -> float { return gate_(at.qo_token, at.qo_head, d); }, [&](int, float x, float gate) -> float { return x * recip(1.0f + exp(-gate)); });
  }
#line _ "variant"
};
