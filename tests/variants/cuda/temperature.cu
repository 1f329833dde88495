#line _ "variant"
namespace lang {

/// Temperature by position: queries far into a text attend more sharply.
///
/// `q * (1 + attn_scale * ln(1 + floor((qo_pos + 1) / floor_scale)))`: Llama 4 in its layers without positional
/// embeddings, for texts longer than those of training (after arXiv 2501.19399). Parameters are named as in the model's
/// configuration.
struct Temperature {
  int floor_scale_;
  float attn_scale_;
  Divisor<int> floor_scale_div_;

#line _ "variants/src/scale/temperature.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const {
    const int steps = div_by(at.qo_pos + 1, floor_scale_div_);
    const float scale = ln(float(steps + 1)) * attn_scale_ + 1.0f;
    q.map([&](int, float x) -> float { return x * scale; });
  }
#line _ "variant"
};
