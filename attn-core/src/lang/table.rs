//! Captured tensors: tables that a variant reads by index, and those that it stores to.
//!
//! [`elem`] is what they are made of ([`fp8`] brings two of the types), [`tensor`] the tables, [`out`] the outputs,
//! [`ranges`] what masks over tiles ask of tables.

pub mod elem;
pub mod fp8;
pub mod out;
pub mod ranges;
pub mod tensor;

pub use elem::{Bits, TableElem};
pub use fp8::{F8E4M3, F8E5M2};
pub use out::{OutBuffer, OutTensor, OutTensor1, OutTensor2, OutTensor3, OutTensor4};
pub use tensor::{Tensor, Tensor0, Tensor1, Tensor2, Tensor3, Tensor4, TensorLenError};

/// The place of an index in a row-major table, each index clamped into its extent; `None` for an empty table.
pub(crate) fn place<const RANK: usize>(at: [i32; RANK], shape: &[i64; RANK]) -> Option<usize> {
    let mut place = 0i64;
    for (i, &n) in at.into_iter().zip(shape) {
        if n == 0 {
            return None;
        }
        place = place * n + i64::from(i).min(n - 1).max(0);
    }
    usize::try_from(place).ok()
}
