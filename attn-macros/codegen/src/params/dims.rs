//! Dimensions of a problem by name.

/// The fields of `Dims`, which shapes and conditions may name beside the variant's fields.
pub(super) const DIMS: [&str; 7] = ["qo_heads", "kv_heads", "head_dim", "value_dim", "batch", "qo_tokens", "kv_tokens"];

/// The counts of a batch among them.
pub(super) const COUNTS: [&str; 3] = ["batch", "qo_tokens", "kv_tokens"];
