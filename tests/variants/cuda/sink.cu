#line _ "variant"
namespace lang {

/// Attention sink: a learnt logit per head enters the denominator, with no value behind it.
///
/// `O = sum_j exp(logit_j) v_j / (exp(logits[qo_head]) + sum_j exp(logit_j))`, as in gpt-oss (arXiv 2508.10925). A row
/// without keys gives O = 0 and LSE = the sink's logit. `-inf` is a head without a sink.
struct Sink {
  Tensor1<float> logits_;

#line _ "variants/src/normalizer/sink.rs"
  ATTN_FN float sink_logit(RowIndex at) const {
    return logits_[at.qo_head];
  }
#line _ "variant"
};
