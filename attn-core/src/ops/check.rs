//! Checks that several ops share.

use super::{ArrayMut, KvMut, KvRef, OpError};
use crate::{
    dtype::Dtype,
    tensor::{TensorError, TensorMut, TensorRef},
};

pub(crate) fn rank(name: &'static str, tensor: &TensorRef<'_>, rank: usize, want: &'static str) -> Result<(), OpError> {
    let got = tensor.shape().len();
    if got == rank { Ok(()) } else { Err(TensorError::Rank { tensor: name, rank: got, want }.into()) }
}

pub(crate) fn extent(
    name: &'static str,
    tensor: &TensorRef<'_>,
    dim: usize,
    what: &'static str,
    want: usize,
) -> Result<(), OpError> {
    let got = tensor.shape()[dim];
    let wrong = || TensorError::Shape { tensor: name, dim: what, got, want, exact: true };
    if got == want { Ok(()) } else { Err(wrong().into()) }
}

pub(crate) fn dtype(name: &'static str, got: Dtype, allowed: &[Dtype]) -> Result<(), OpError> {
    if allowed.contains(&got) {
        return Ok(());
    }
    let names: Vec<_> = allowed.iter().map(ToString::to_string).collect();
    Err(OpError::Dtype { tensor: name, got, want: names.join(" or ") })
}

/// Checks that elements of the innermost dimension are contiguous.
pub(crate) fn innermost(name: &'static str, tensor: &TensorRef<'_>) -> Result<(), OpError> {
    let dim = tensor.shape().len() - 1;
    let stride = tensor.strides()[dim];
    let wrong = || TensorError::Stride { tensor: name, dim, stride, want: "1" };
    if stride == 1 || tensor.shape()[dim] <= 1 { Ok(()) } else { Err(wrong().into()) }
}

pub(crate) fn disjoint(name: &'static str, tensor: &TensorMut<'_>) -> Result<(), OpError> {
    let overlap = || {
        let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
        TensorError::Overlap { tensor: name, shape, strides }
    };
    if tensor.is_disjoint() { Ok(()) } else { Err(overlap().into()) }
}

/// Checks that the status array, if given, has an entry.
pub(crate) fn status(status: Option<&ArrayMut<'_, u32>>) -> Result<(), OpError> {
    let none = status.is_some_and(ArrayMut::is_empty);
    if none { Err(OpError::Len { array: "status", len: 0, want: 1, exact: false }) } else { Ok(()) }
}

/// One side of an op that moves keys and values, with the names of its tensors for errors.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) k: &'static str,
    pub(super) v: &'static str,
    /// Whether tensors are pools of pages; otherwise they are contiguous rows.
    pub(super) paged: bool,
}

impl Side {
    fn check(&self, name: &'static str, tensor: &TensorRef<'_>) -> Result<(), OpError> {
        if self.paged {
            rank(name, tensor, 4, "4: (pages, slots, kv_heads, head_dim)")?;
        } else {
            rank(name, tensor, 3, "3: (tokens, kv_heads, head_dim)")?;
        }
        innermost(name, tensor)
    }
}

/// Checks keys (and values, if any) of two sides: both have the same heads and head_dim, and the tensors of one side
/// agree in the outer dimensions.
pub(super) fn both_sides(from: Side, source: &KvRef<'_>, to: Side, target: &KvMut<'_>) -> Result<(), OpError> {
    match (source.has_values(), target.has_values()) {
        (true, false) => return Err(OpError::Values { there: from.name, missing: to.name }),
        (false, true) => return Err(OpError::Values { there: to.name, missing: from.name }),
        _ => {}
    }
    for (side, kv) in [(from, *source), (to, target.as_ref())] {
        for (name, tensor) in [side.k, side.v].into_iter().zip(kv.parts()) {
            side.check(name, &tensor)?;
        }
        if let [k, v] = kv.parts().collect::<Vec<_>>()[..] {
            let outer = if side.paged { &["pages", "slots", "heads"][..] } else { &["tokens", "heads"] };
            for (dim, &what) in outer.iter().enumerate() {
                extent(side.v, &v, dim, what, k.shape()[dim])?;
            }
            if v.dtype() != k.dtype() {
                return Err(OpError::Dtype { tensor: side.v, got: v.dtype(), want: k.dtype().to_string() });
            }
        }
    }
    let targets = target.as_ref();
    for ((from_name, x), (to_name, y)) in
        [from.k, from.v].into_iter().zip(source.parts()).zip([to.k, to.v].into_iter().zip(targets.parts()))
    {
        for (back, dim) in [(2, "heads"), (1, "values per head")] {
            let (got, want) = (x.shape()[x.shape().len() - back], y.shape()[y.shape().len() - back]);
            if got != want {
                return Err(OpError::Differs { tensor: from_name, dim, got, other: to_name, want });
            }
        }
        let overlap = || {
            let (shape, strides) = (y.shape().to_vec(), y.strides().to_vec());
            TensorError::Overlap { tensor: to_name, shape, strides }
        };
        if !y.is_disjoint() {
            return Err(overlap().into());
        }
    }
    Ok(())
}
