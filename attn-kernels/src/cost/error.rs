//! Why costs cannot be read.

use std::io;

use crate::compile::UnknownArch;

/// Costs that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum CostsError {
    /// A file that cannot be read.
    #[error("{file}: {source}; `attn calibrate --out FILE` writes the costs of a GPU")]
    Read { file: String, source: io::Error },
    /// A line that is neither a row nor says what the rows after it are of.
    #[error("{file}, line {line}: {why}")]
    Line { file: String, line: usize, why: Box<CostsLineError> },
    /// No rows.
    #[error("{file}: there are no costs in it; `attn calibrate --out FILE` writes a line for each kernel")]
    NoRows { file: String },
}

/// What is wrong with a line of costs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum CostsLineError {
    /// No JSON object.
    #[error("it is no JSON object{0}; each line that `attn calibrate --out FILE` writes is one")]
    NoObject(String),
    /// A row of an unknown GPU: no line before it names the architecture.
    #[error(
        "`arch` is missing: a line {{\"about\": {{\"arch\": \"sm_90\"}}}} says what GPU the rows after it are of; keep \
         the first line that `attn calibrate` writes"
    )]
    NoArch,
    /// An architecture that does not exist.
    #[error(transparent)]
    Arch(UnknownArch),
    /// A field that is one of some words.
    #[error("`{field}` is {found}; possible is {}", possible.join(", "))]
    Word {
        field: &'static str,
        found: String,
        /// What it may be.
        possible: &'static [&'static str],
    },
    /// A field that is a number.
    #[error("`{field}` is {found}; possible is a whole number from {least} to {most}")]
    Number { field: &'static str, found: String, least: u32, most: u32 },
    /// A field that rows do not have.
    #[error("`{field}` is no field of a row of costs{near}; notes are in `meta`")]
    Unknown { field: String, near: String },
    /// A field that is there twice.
    #[error("`{field}` is there twice; remove one of them")]
    Twice { field: String },
    /// A row in the line that says what rows are of.
    #[error("`about` is a line of its own, before the rows of the GPU")]
    AboutBeside,
    /// A kernel that is there twice.
    #[error("line {first} has costs of the same kernel; remove one of them")]
    Again { first: usize },
}
