//! What a rank asks of a group.

use std::fmt;

use crate::dtype::Dtype;
use crate::tensor::{TensorMut, TensorRef};

/// A collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every rank receives the tensors of all: a dimension of ranks comes before those of what is sent.
    AllGather,
    /// Every rank receives the sum of the tensors of all. Sums are of f32 and rounded once on the CPU.
    AllReduce,
    /// Part `r` of the first dimension goes to rank `r`; what is received has a part of each rank.
    AllToAll,
    /// A tensor goes to the next rank, from the last one to the first.
    Shift,
    /// Nothing is sent.
    Barrier,
}

/// A call of a rank. Those of all ranks are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub(super) collective: Collective,
    pub(super) dtype: Dtype,
    /// Of the tensor that is sent.
    pub(super) shape: Vec<usize>,
}

impl Call {
    /// A barrier.
    pub(super) const BARRIER: Call = Call { collective: Collective::Barrier, dtype: Dtype::U8, shape: Vec::new() };

    /// The call of a collective over contiguous tensors.
    ///
    /// # Errors
    ///
    /// Why the tensors do not fit each other, or the number of ranks.
    pub fn new(
        collective: Collective,
        ranks: usize,
        send: &TensorRef<'_>,
        receive: &TensorMut<'_>,
    ) -> Result<Self, String> {
        let call = Call { collective, dtype: send.dtype(), shape: send.shape().to_vec() };
        if collective == Collective::AllToAll && send.shape().first() != Some(&ranks) {
            return Err(format!("{call} to {ranks} ranks; the first dimension is that of ranks"));
        }
        if collective == Collective::AllReduce && !matches!(call.dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32) {
            return Err(format!("{call}; sums are of f16, bf16 or f32"));
        }
        let gathered = [&[ranks], send.shape()].concat();
        let receives = if collective == Collective::AllGather { &gathered } else { send.shape() };
        if (receive.dtype(), receive.shape()) != (send.dtype(), receives) {
            let (dtype, shape) = (receive.dtype(), receive.shape());
            return Err(format!("{call} needs {receives:?} to receive into, not {dtype} {shape:?}"));
        }
        if !(is_contiguous(send) && is_contiguous(&receive.as_ref())) {
            return Err(format!("{call} needs contiguous tensors"));
        }
        Ok(call)
    }

    /// The elements that a rank sends.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Their type.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The bytes that a rank sends.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.collective {
            Collective::AllGather => "all_gather",
            Collective::AllReduce => "all_reduce",
            Collective::AllToAll => "all_to_all",
            Collective::Shift => "shift",
            Collective::Barrier => return f.write_str("barrier"),
        };
        write!(f, "{name} of {} {:?}", self.dtype, self.shape)
    }
}

fn is_contiguous(tensor: &TensorRef<'_>) -> bool {
    let mut elements = 1;
    tensor.shape().iter().zip(tensor.strides()).rev().all(|(&extent, &stride)| {
        let fits = extent <= 1 || stride == elements;
        elements *= extent as i64;
        fits
    })
}
