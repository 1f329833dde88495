//! Errors of the side data of stored keys and values.

use super::TensorError;

/// The names of both in errors.
pub(crate) const NAMES: [&str; 2] = ["k side", "v side"];

/// The error for side data that no row has.
pub(crate) fn superfluous(part: usize) -> TensorError {
    TensorError::NoSide { tensor: NAMES[part] }
}

/// The error for side data that is not given.
pub(crate) fn absent(part: usize) -> TensorError {
    TensorError::Absent {
        tensor: NAMES[part],
        why: "the KV format stores side data beside the codes of a row; give it with `with_sides`",
    }
}
