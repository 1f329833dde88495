//! Counts of a list as `i32`, the integer type of every field that a kernel reads.

use super::PlanError;

/// `value` as `i32`.
///
/// # Errors
///
/// [`PlanError::TooMany`] names `what` was counted.
pub(super) fn count_i32(what: &'static str, value: u64) -> Result<i32, PlanError> {
    i32::try_from(value).map_err(|_| PlanError::TooMany { what, value })
}
