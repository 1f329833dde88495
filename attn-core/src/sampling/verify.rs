//! Verification of speculated tokens: a chain of drafts, and a tree. What is here is the CPU's, with the bits of CUDA.
//!
//! Every test of a draft and every draw has a random number of its own, by the seed, the position of the token, and
//! what it is for.
//!
//! Masses are those of [`excess_mass`](super::fixed_point::excess_mass): what is not a positive normal number below 2
//! has none.

mod chain;
pub(crate) mod coin;
mod tree;

pub use chain::{ChainDrafts, ChainOut, check_chain, verify_chain};
pub use tree::{MAX_NODES, TreeDrafts, TreeOut, check_tree, verify_tree};

use super::fixed_point::mulhi;
use crate::dtype::Dtype;
use crate::ops::{OpError, check as op_check, elements};
use crate::tensor::TensorRef;

/// Extents of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftSizes {
    /// Requests.
    pub requests: usize,
    /// Drafts of a request; nodes of its tree.
    pub drafts: usize,
    /// Tokens of the vocabulary, below 2^28: sums of masses have 64 bits.
    pub vocab: usize,
}

/// Checks probabilities, and returns their shape.
fn probs_shape(name: &'static str, probs: &TensorRef<'_>) -> Result<[usize; 3], OpError> {
    op_check::rank(name, probs, 3, "3: (requests, rows, vocab)")?;
    op_check::dtype(name, probs.dtype(), &[Dtype::F32])?;
    op_check::innermost(name, probs)?;
    let shape = [probs.shape()[0], probs.shape()[1], probs.shape()[2]];
    if shape[2] >= 1 << 28 {
        return Err(OpError::Parameter { name: "vocab", got: shape[2] as f32, want: "below 2^28" });
    }
    Ok(shape)
}

/// Checks that entries of an array are `least` to `end - 1`.
fn in_range(array: &'static str, values: &[i32], least: i64, end: usize) -> Result<(), OpError> {
    let wrong = |&value: &i32| i64::from(value) < least || i64::from(value) >= end as i64;
    values.iter().position(wrong).map_or(Ok(()), |index| {
        Err(OpError::Entry { array, index, value: values[index].into(), least, most: end as i64 - 1 })
    })
}

/// The first token up to which masses exceed `random` of their sum; `None` without mass.
fn draw(random: u64, vocab: usize, mass: impl Fn(usize) -> u64) -> Option<usize> {
    let sum: u64 = (0..vocab).map(&mass).sum();
    let number = mulhi(random, sum);
    let mut through = 0;
    (0..vocab).find(|&id| {
        through += mass(id);
        through > number
    })
}

/// Probabilities in host memory.
struct Probs<'a> {
    values: &'a [f32],
    strides: [usize; 2],
    vocab: usize,
}

impl<'a> Probs<'a> {
    fn new(name: &'static str, tensor: &TensorRef<'a>) -> Result<Self, OpError> {
        let values = tensor.as_host::<f32>().ok_or_else(|| elements::on_device(name))?;
        let strides = [tensor.strides()[0] as usize, tensor.strides()[1] as usize];
        Ok(Probs { values, strides, vocab: tensor.shape()[2] })
    }

    fn row(&self, request: usize, row: usize) -> &'a [f32] {
        &self.values[request * self.strides[0] + row * self.strides[1]..][..self.vocab]
    }
}

#[cfg(test)]
mod tests;
