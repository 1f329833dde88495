#line _ "variant"
namespace lang {

/// Output scale: each head's output is divided by a number, as before it is quantised.
///
/// `o / scale[qo_head]`. An FP8 output (arXiv 2209.05433) takes the largest magnitude divided by that of the format.
struct OutputScale {
  Tensor1<float> scale_;

#line _ "variants/src/output/output_scale.rs"
  template <class R> ATTN_FN void output_transform(R& o, RowState _state, RowIndex at) const {
    const float inv = 1.0f / scale_[at.qo_head];
    o.map([&](int, float x) -> float { return x * inv; });
  }
#line _ "variant"
};
