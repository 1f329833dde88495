#line _ "variant"
namespace lang {

/// ReLU attention: positive logits are weights, and negative ones are none.
///
/// `O = sum_j max(logit_j, 0) v_j / kv_len`, with no sum over the other weights (arXiv 2309.08586), squared where `squared`
/// says so (arXiv 2202.10447), and not divided by the number of keys where `mean` is false (ReLA, arXiv 2104.07012, which
/// normalises the output instead: `relu(mean=false) + output_norm`). A composition has one normaliser: no sink, no second one.
struct Relu {
  alignas(4) bool squared_;
  alignas(4) bool mean_;

#line _ "variants/src/relu.rs"
  ATTN_FN float weight(float logit, float _row_max, LogitIndex at) const {
    const float positive = max(logit, 0.0f);
    const float weight_2 = squared_ ? positive * positive : positive;
    const float scale = mean_ ? 1.0f / float(at.kv_len) : 1.0f;
    return weight_2 * scale;
  }
#line _ "variant"
};
