#line _ "variant"
namespace lang {

/// Key smoothing: the mean of a head's keys is subtracted from each.
///
/// `k[d] - mean[batch, kv_head, d]`. Softmax ignores a term that all logits of a row share, and the remainder is easier
/// to quantise (SageAttention, arXiv 2410.02367). LSE moves by the logit of the mean.
struct KSmoothing {
  Tensor3<float> mean_;

#line _ "variants/src/quant/k_smoothing.rs"
  template <class R> ATTN_FN void key_transform(R& k, KvIndex at) const {
    k.zip([&](int d) -> float { return mean_(at.batch, at.kv_head, d); }, [&](int, float x, float mean) -> float { return x - mean; });
  }
#line _ "variant"
};
