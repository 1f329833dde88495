#line _ "variant"
namespace lang {

/// ReLU attention: positive logits are weights, and negative ones are none.
///
/// `O = sum_j max(logit_j, 0) v_j / kv_len`, without a denominator over the weights (arXiv 2309.08586). `squared`
/// squares the weights (arXiv 2202.10447). `mean = false` leaves out the division by the number of keys: ReLA (arXiv
/// 2104.07012) normalises the output instead, `relu(mean=false) + output_norm`. A composition has one normaliser, so it
/// takes no sink and no second normaliser.
struct Relu {
  alignas(4) bool squared_;
  alignas(4) bool mean_;

#line _ "variants/src/normalizer/relu.rs"
  ATTN_FN float weight(float logit, float _row_max, LogitIndex at) const {
    const float positive = max(logit, 0.0f);
    const float weight_2 = squared_ ? positive * positive : positive;
    const float scale = mean_ ? 1.0f / float(at.kv_len) : 1.0f;
    return weight_2 * scale;
  }
#line _ "variant"
};
