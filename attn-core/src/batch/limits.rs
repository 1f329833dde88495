//! Limits of a batch.

/// The greatest number of query tokens and of keys of a batch: 2^30 - 1. Hooks add and subtract coordinates in `i32`,
/// and generated code relies on sums of two coordinates not to overflow.
pub const MAX_TOKENS: i32 = (1 << 30) - 1;
