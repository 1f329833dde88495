//! Parameter tensors: tensors that the hooks of a variant read, and output tensors that they store to.
//!
//! [`element`] has the element types ([`fp8`] two of them), [`tensor`] the tensors, [`output`] the output tensors,
//! [`bounds`] minima and maxima of boxes of elements for tile classes.

pub mod bounds;
mod convert;
pub mod element;
mod flat_index;
pub mod fp8;
mod len_error;
pub mod output;
pub mod tensor;

pub use element::{Bits, ParamElement};
pub use fp8::{F8E4M3, F8E5M2};
pub use len_error::TensorLenError;
#[doc(hidden)]
pub use output::ReadsOutput;
pub use output::{OutBuffer, OutTensor, OutTensor1, OutTensor2, OutTensor3, OutTensor4};
pub use tensor::{Tensor, Tensor0, Tensor1, Tensor2, Tensor3, Tensor4};
