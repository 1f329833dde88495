//! Errors of Rust text.

use std::fmt;

use proc_macro2::Span;

/// A mistake and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl Diagnostic {
    /// A mistake at a span of a file.
    pub(crate) fn at(file: &str, span: Span, message: impl fmt::Display) -> Self {
        let start = span.start();
        Diagnostic { file: file.to_owned(), line: start.line, column: start.column + 1, message: message.to_string() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { file, line, column, message } = self;
        write!(f, "{file}:{line}:{column}: {message}")
    }
}

/// Why a text gives no variants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// Mistakes in the Rust of the text, in the order of its lines.
    #[error("{}", lines(.0))]
    Rust(Vec<Diagnostic>),
    /// There is no variant in the text.
    #[error("{files}: no `#[attention_variant] impl AttentionVariant for ..` is in the text")]
    Empty {
        /// The names of the files.
        files: String,
    },
}

impl From<Diagnostic> for TextError {
    fn from(diagnostic: Diagnostic) -> Self {
        TextError::Rust(vec![diagnostic])
    }
}

fn lines(all: &[Diagnostic]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
