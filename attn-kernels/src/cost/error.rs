//! Why costs cannot be read.

/// Costs that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum CostsError {
    /// A file that cannot be read.
    #[error("{file}: {source}; `attn calibrate --out FILE` writes the costs of a GPU")]
    Read { file: String, source: std::io::Error },
    /// A line that is neither a row nor says what the rows after it are of.
    #[error("{file}, line {line}: {why}")]
    Line { file: String, line: usize, why: String },
    /// No rows.
    #[error("{file}: there are no costs in it; `attn calibrate --out FILE` writes a line for each kernel")]
    NoRows { file: String },
}
