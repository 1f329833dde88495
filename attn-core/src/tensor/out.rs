//! The output tensors of an attention.

use super::{Scale, TensorError, descriptor::TensorMut};
use crate::dtype::Dtype;

/// The outputs of an attention.
#[derive(Debug)]
pub struct Out<'a> {
    /// O: (qo tokens, qo heads, head_dim_vo), of the dtype of q unless
    /// [`Dtypes::with_output`](crate::dtype::Dtypes::with_output) says otherwise; head_dim_vo is head_dim unless
    /// [`HeadDimVo`](crate::spec::HeadDimVo) says so.
    pub o: TensorMut<'a>,
    /// LSE: (qo tokens, qo heads) f32, the log-sum-exp of each row's logits, natural logarithm; `None` if not wanted.
    pub lse: Option<TensorMut<'a>>,
    /// What readers multiply o of e4m3 by: a number, or f32 of one element, which a kernel reads in device memory.
    pub scale: Scale<'a>,
}

impl<'a> Out<'a> {
    /// O only.
    #[must_use]
    pub fn new(o: TensorMut<'a>) -> Self {
        Out { o, lse: None, scale: Scale::default() }
    }
    /// O and LSE.
    #[must_use]
    pub fn with_lse(o: TensorMut<'a>, lse: TensorMut<'a>) -> Self {
        Out { o, lse: Some(lse), scale: Scale::default() }
    }
    /// The same tensors, with a scale of O.
    #[must_use]
    pub fn with_scale(self, scale: Scale<'a>) -> Self {
        Out { scale, ..self }
    }

    /// Checks what partial states need, to be merged.
    ///
    /// # Errors
    ///
    /// No LSE, or an O of e4m3.
    pub fn check_partial(&self) -> Result<(), TensorError> {
        if self.o.dtype() == Dtype::E4m3 {
            return Err(TensorError::PartialOutput);
        }
        let why = "a partial output cannot be merged without it";
        if self.lse.is_none() { Err(TensorError::Absent { tensor: "lse", why }) } else { Ok(()) }
    }
}
