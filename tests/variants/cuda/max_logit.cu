#line _ "variant"
namespace lang {

/// Max logit: the largest logit of each head is written out, as QK-clip wants it.
///
/// `max[qo_head] = max(max[qo_head], logits attended to)` over all queries of the batch, sinks included; the attention
/// output does not change (MuonClip, arXiv 2507.20534, shrinks the projections of heads whose maximum is too large). It
/// costs one atomic operation per row. Initialise `max` to negative infinity.
struct MaxLogit {
  OutTensor1 max_;

#line _ "variants/src/output/max_logit.rs"
  template <class R> ATTN_FN void output_transform(R& _o, RowState state, RowIndex at) const {
    max_.atomic_max(state.row_max, at.qo_head);
  }
#line _ "variant"
};
