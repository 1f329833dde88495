//! Errors of planning: rules, batches and capacities that do not go together, and work lists of another batch.

/// Why a rule or a batch cannot be planned, or why a given work list does not fit its batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum PlanError {
    /// A number of the rule that must be at least 1.
    #[error("{what} = 0; it must be at least 1")]
    Zero { what: &'static str },
    /// More than `i32` counts.
    #[error("{value} {what} are too many; at most {} are supported", i32::MAX)]
    TooMany { what: &'static str, value: u64 },
    /// A work item, merge, row or part that does not belong to the batch or its list.
    #[error("{what} {index} names {field} = {value}, which this batch has not")]
    Foreign {
        /// `item`, `merge`, `row` or `part`.
        what: &'static str,
        index: usize,
        field: &'static str,
        value: i32,
    },
    /// Workers that do not run every item once, in order.
    #[error("entry {entry} of workers is {value}; it must be in {least}..={most}")]
    Workers { entry: usize, value: i32, least: usize, most: usize },
    /// A batch or its work list exceeds the capacity that the plan was made with.
    #[error("the batch makes {count} {what}; the plan has capacity for {capacity}. Make a plan with a larger capacity")]
    Capacity { what: &'static str, count: usize, capacity: usize },
    /// A cascade was given where only batches without levels are supported.
    #[error("the batch has levels; {what} takes batches without (`Layout::flattened` gives one, where pages are full)")]
    Levels { what: &'static str },
    /// A variant or a schedule that mixed lists do not support.
    #[error("{what} is not run by the mixed kernel; let requests of few rows and of many run in batches of their own")]
    NotMixed { what: &'static str },
    /// Several requests share keys or values whose transform reads a coordinate that differs between requests.
    #[error(
        "`{part}` rewrites keys or values by `at.{word}`, which differs between requests that share them; give the \
         batch without levels"
    )]
    PerRequestKvTransform { part: &'static str, word: &'static str },
}

/// A count of a list as `i32`, the integer type of every field that a kernel reads. [`PlanError::TooMany`] names `what`
/// was counted.
pub(super) fn count_i32(what: &'static str, value: u64) -> Result<i32, PlanError> {
    i32::try_from(value).map_err(|_| PlanError::TooMany { what, value })
}
