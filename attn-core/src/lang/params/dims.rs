//! The dimensions that shapes of parameter tensors are written in.

/// The dimensions that shapes are written in. `None` is unknown; a shape that uses it is checked later. `batch`,
/// `qo_tokens` and `kv_tokens` are known when a batch is planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Dims {
    pub qo_heads: Option<i64>,
    pub kv_heads: Option<i64>,
    pub head_dim: Option<i64>,
    pub value_dim: Option<i64>,
    pub batch: Option<i64>,
    pub qo_tokens: Option<i64>,
    pub kv_tokens: Option<i64>,
}

impl Dims {
    /// The names of the dimensions that a batch has.
    pub const OF_BATCH: [&'static str; 3] = ["batch", "qo_tokens", "kv_tokens"];
}

/// Why a shape cannot be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeProblem {
    /// A dimension is not known yet.
    Unknown,
    /// It overflows or divides by zero.
    Arithmetic,
}
