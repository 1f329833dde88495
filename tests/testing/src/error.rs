//! Errors of the harness.

use attn_core::batch::BatchError;

/// An error of the harness. A wrong result of [`check`](crate::check) is not an error: see
/// [`CheckResult`](crate::CheckResult).
#[derive(thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum TestError {
    /// An invalid line of a case file.
    #[error("line {line} is not a case: {why}")]
    CaseLine { line: usize, why: String },
    /// A line of a case file whose sizes contradict each other.
    #[error("line {line}: {why}")]
    CaseInvalid { line: usize, why: String },
    /// An invalid value in a field of a case.
    #[error("`{field}`: {why}")]
    Field { field: &'static str, why: String },
    /// A shape of a tensor that the harness cannot fill.
    #[error("tensor parameter `{name}` has `#[shape({shape})]`, which the tools cannot evaluate: {why}")]
    Shape { name: String, shape: String, why: String },
    /// An unknown dtype.
    #[error(transparent)]
    Dtype(#[from] attn_core::dtype::UnknownDtype),
    /// What is neither a dtype of keys and values nor a KV format.
    #[error("{dtype}; nor is it a KV format: {format}")]
    KvDtype { dtype: attn_core::dtype::UnknownDtype, format: Box<attn::ExprError> },
    /// An unknown kernel.
    #[error(transparent)]
    Kernel(#[from] attn_core::spec::UnknownKernel),
    /// Lengths that make an invalid batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A case whose reference would take too long.
    #[error("the reference would need {cost:.1e} operations, more than the {limit:.1e} allowed; use a smaller case")]
    TooBig { cost: f64, limit: f64 },
    /// A result outside tolerance.
    #[error("wrong on {ran}: {why}; the case is {case}")]
    Wrong {
        ran: String,
        why: String,
        /// The case, as a line of a case file.
        case: String,
    },
    /// A property that the variant violates.
    #[error("{what}: {why}")]
    Broken { what: &'static str, why: String },
    /// An error of attn-rs.
    #[error(transparent)]
    Attn(#[from] attn::Error),
}

/// The message, which a `main` that returns the error prints.
impl std::fmt::Debug for TestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
