//! Captured tensors: tables that a variant reads by index.

use std::{ops::Index, sync::Arc};

/// A captured tensor of rank 1: an owning handle, cheap to clone.
///
/// Indexed by `i32`; an index outside is clamped into the table, on either side alike, since edge tiles call hooks
/// out of range. The default is *unset*: filled from the parameter's `#[default]` when the variant is bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensor1<T> {
    data: Option<Arc<[T]>>,
}

/// A captured tensor of rank 2, row-major; indexed by `[[i, j]]`, each index clamped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensor2<T> {
    data: Option<Arc<[T]>>,
    shape: [i64; 2],
}
