//! What can be wrong with a plan.

/// What can be wrong with a rule, a plan, or work that someone else made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A number of the rule that must be at least 1.
    #[error("{what} = 0; it must be at least 1")]
    Zero {
        /// Which number.
        what: &'static str,
    },
    /// More than `i32` counts.
    #[error("{value} {what} are too many; at most {} are supported", i32::MAX)]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many.
        value: u64,
    },
    /// A work item or merge that does not belong to the batch.
    #[error("{what} {index} names {field} = {value}, which this batch has not")]
    Foreign {
        /// `item` or `merge`.
        what: &'static str,
        /// Its index in the list.
        index: usize,
        /// The field.
        field: &'static str,
        /// The field's value.
        value: i32,
    },
    /// Arms that do not have the items and workers of the list.
    #[error("the arms have {counted} {what}, the list has {listed}")]
    Arms {
        /// `items`, or `entries of workers`.
        what: &'static str,
        /// Those of all arms.
        counted: u64,
        /// Those of the list.
        listed: usize,
    },
    /// Items that nobody runs.
    #[error("{items} items have no workers")]
    NoWorkers {
        /// How many.
        items: usize,
    },
    /// Workers that do not run every item once, in order.
    #[error("entry {entry} of workers is {value}; it must be in {least}..={most}")]
    Workers {
        /// The entry; of a union, counted over all arms.
        entry: usize,
        /// Its value.
        value: i32,
        /// The least that it may be.
        least: usize,
        /// The most that it may be.
        most: usize,
    },
    /// A list that is longer than there is room for.
    #[error("the batch makes {count} {what}; the plan has room for {room}. Make a plan with a larger capacity")]
    Room {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        room: usize,
    },
    /// A cascade where there is only a way for batches without levels.
    #[error("the batch has levels; {what} takes batches without (`Layout::flattened` gives one, where pages are full)")]
    Levels {
        /// What does not take it.
        what: &'static str,
    },
    /// A variant that mixed lists cannot run.
    #[error("{what} is not run by the mixed kernel; let requests of few rows and of many run in batches of their own")]
    NotMixed {
        /// What the variant has.
        what: &'static str,
    },
    /// Keys or values that are rewritten for one request, and shared by several.
    #[error(
        "`{part}` rewrites keys or values by `at.{word}`, which differs between requests that share them; give the batch without levels"
    )]
    RewrittenForOne {
        /// The part of the variant.
        part: &'static str,
        /// The index word.
        word: &'static str,
    },
}
