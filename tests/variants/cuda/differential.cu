#line _ "variant"
namespace lang {

/// Differential attention, its second run: the output of the first minus its own, normalised by rows.
///
/// Two runs over the two halves of queries and keys, and the same values, give
/// `(softmax(q1 k1) - lambda softmax(q2 k2)) v`, then an RMS norm over the row of a head, times `1 - lambda_init`
/// (arXiv 2410.05258): `y = first - lambda o`, `y * scale * weight[d] / sqrt(mean(y^2) + eps)`. The first run has the
/// same variant without this part; its output is the parameter tensor `first`.
struct Differential {
  float lambda_;
  float scale_;
  float eps_;
  Tensor1<float> weight_;
  Tensor3<float> first_;

#line _ "variants/src/output/differential.rs"
  template <class R> ATTN_FN void output_transform(R& o, RowState _state, RowIndex at) const {
    o.zip([&](int d) -> float { return first_(at.qo_token, at.qo_head, d); }, [&](int, float x, float first) -> float { return first - lambda_ * x; });
    const float inv = scale_ / sqrt(o.sum_sq() / float(o.dim()) + eps_);
    o.map([&](int d, float x) -> float { return x * inv * weight_[d]; });
  }
#line _ "variant"
};
