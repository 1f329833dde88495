//! A number of values that does not fit a shape.

/// The number of values does not fit the shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{len} values do not fill a tensor of shape {shape:?}; {}", takes(.want))]
pub struct TensorLenError {
    /// Number of values given.
    pub len: usize,
    /// The shape asked for.
    pub shape: Vec<usize>,
    /// Number of values that the shape takes; `None` if an extent exceeds 2147483647, or their product a `usize`.
    pub want: Option<usize>,
}

fn takes(want: &Option<usize>) -> String {
    want.map_or_else(|| "its extents are too large".to_owned(), |n| format!("it takes {n} of them"))
}
