//! Errors of Rust text.

use std::fmt;

use proc_macro2::Span;

/// The most characters of a message.
const MOST_OF_MESSAGE: usize = 1000;

/// A mistake and its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
        let mut message = message.to_string();
        // a message says what is wrong, and does not repeat a long text
        if let Some((end, _)) = message.char_indices().nth(MOST_OF_MESSAGE) {
            message.truncate(end);
            message.push_str("..");
        }
        Diagnostic { file: file.to_owned(), line: start.line, column: start.column + 1, message }
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
#[allow(missing_docs)] // of fields, which the messages name
pub enum TextError {
    /// Mistakes in the Rust of the text, in the order of its lines.
    #[error("{}", lines(.0))]
    Rust(Vec<Diagnostic>),
    /// The text costs more than a text may.
    #[error("the text has {found} {budget}, and a text has at most {most}: {way_out}")]
    Budget { budget: &'static str, found: usize, most: usize, way_out: &'static str },
    /// The text takes too long to translate.
    #[error("the text takes more than {most} steps to translate, the most for one text: {way_out}")]
    Steps { most: u64, way_out: &'static str },
    /// No thread could be started to read the text.
    #[error("the text is read on a thread of its own, and the system starts none: {why}")]
    Thread { why: String },
    /// There is no variant in the text.
    #[error("{files}: no `#[attention_variant] impl AttentionVariant for ..` is in the text")]
    Empty { files: String },
}

impl From<Diagnostic> for TextError {
    fn from(diagnostic: Diagnostic) -> Self {
        TextError::Rust(vec![diagnostic])
    }
}

fn lines(all: &[Diagnostic]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
