//! What can go wrong before there is a result.

use crate::batch::BatchError;

/// Why a case could not be run at all. A wrong result is not an error: see [`CheckResult`](super::CheckResult).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// A line of a case file that is not a case.
    #[error("line {line} is not a case: {source}")]
    CaseLine {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A line of a case file whose sizes contradict each other.
    #[error("line {line}: {why}")]
    CaseInvalid {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A field of a case with a value that cannot be.
    #[error("`{field}`: {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A shape that the testing tools cannot fill.
    #[error("tensor parameter `{name}` has `#[shape({shape})]`, which the tools cannot evaluate: {why}")]
    Shape {
        /// The parameter.
        name: String,
        /// Its shape as written.
        shape: String,
        /// What is wrong with it.
        why: String,
    },
    /// A dtype that is not known.
    #[error(transparent)]
    Dtype(#[from] crate::dtype::UnknownDtype),
    /// A kernel that is not known.
    #[error(transparent)]
    Kernel(#[from] crate::spec::UnknownKernel),
    /// The lengths do not make a batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A reference that would take too long.
    #[error("the reference would need {cost:.1e} operations, more than the {limit:.1e} allowed; use a smaller case")]
    TooBig {
        /// Operations.
        cost: f64,
        /// Operations allowed.
        limit: f64,
    },
    /// A result outside tolerance.
    #[error("wrong on {ran}: {why}; the case is {case}")]
    Wrong {
        /// What ran.
        ran: String,
        /// What is wrong with the result.
        why: String,
        /// The case, as a line of a case file.
        case: String,
    },
    /// A promise that a variant breaks.
    #[error("{what}: {why}")]
    Broken {
        /// Which promise.
        what: &'static str,
        /// Where, and how.
        why: String,
    },
    /// The library refused or failed.
    #[error(transparent)]
    Attn(#[from] crate::Error),
}

/// The message: it is what a `main` that returns the error prints.
impl std::fmt::Debug for TestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
