//! The output tensors of an attention.

use super::descriptor::TensorMut;

/// The outputs of an attention.
#[derive(Debug)]
pub struct Out<'a> {
    /// O: (qo tokens, qo heads, head_dim_vo), of the dtype of q; head_dim_vo is head_dim unless
    /// [`HeadDimVo`](crate::spec::HeadDimVo) says otherwise.
    pub o: TensorMut<'a>,
    /// LSE: (qo tokens, qo heads) f32, the log-sum-exp of each row's logits, natural logarithm; `None` if not wanted.
    pub lse: Option<TensorMut<'a>>,
}

impl<'a> Out<'a> {
    /// O only.
    #[must_use]
    pub fn new(o: TensorMut<'a>) -> Self {
        Out { o, lse: None }
    }
    /// O and LSE.
    #[must_use]
    pub fn with_lse(o: TensorMut<'a>, lse: TensorMut<'a>) -> Self {
        Out { o, lse: Some(lse) }
    }
}
