//! Errors of reading and composing an expression: each names what was found, what may stand there, and the column in a
//! text.

use crate::excerpt::{excerpt, list, marked};
use crate::lang::params::did_you_mean;
use crate::lang::{ComposeError, ParamError};
use crate::registry::RegistryError;

/// Errors of an expression. Columns count characters from 1.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum ExprError {
    /// A syntax error.
    #[error("at column {column}: expected {expected}, found {found}\n{}", marked(.text, *.column))]
    Syntax { text: String, column: usize, expected: String, found: String },
    /// No variant has this name.
    #[error(
        "{}no variant `{}`{}; there are: {}; that of a crate is there once it is linked: `use the_crate as _;`",
        at(*.column), excerpt(.name), did_you_mean(.nearest.as_deref()), list(.known)
    )]
    UnknownVariant { column: Option<usize>, name: String, nearest: Option<String>, known: Vec<String> },
    /// No KV format has this name.
    #[error(
        "{}no KV format `{}`{}; there are: {}",
        at(*.column), excerpt(.name), did_you_mean(.nearest.as_deref()), list(.known)
    )]
    UnknownKvFormat { column: Option<usize>, name: String, nearest: Option<String>, known: Vec<String> },
    /// The parameters of a part are wrong.
    #[error("{}in `{variant}`: {source}", at(*.column))]
    Param { column: Option<usize>, variant: String, source: Box<ParamError> },
    /// An error inside the structured form, with its path: `[1].or[0]` is the first operand of the `or` that is the
    /// second element.
    #[error("at `{path}`: {source}")]
    At { path: String, source: Box<ExprError> },
    /// The expression costs more than an expression may.
    #[error("the expression has {found} {budget}, and an expression has at most {most}: {way_out}")]
    Budget {
        budget: &'static str,
        /// How much of it there is; of parts, up to where reading stopped.
        found: usize,
        most: usize,
        way_out: &'static str,
    },
    /// Combinators are nested too deeply.
    #[error("more than {most} combinators inside each other")]
    Depth { most: usize },
    /// A combinator of the structured form has too few or too many operands.
    #[error("`{combinator}` takes {takes}; here are {got}")]
    Operands { combinator: &'static str, takes: &'static str, got: usize },
    /// The parts do not compose.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// Registering the linked variants failed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// [`Variant::set`](super::Variant::set) found no part with the parameter.
    #[error(
        "no part of `{}` has a parameter `{}`{}; there are: {}",
        excerpt(.expr), excerpt(.path), did_you_mean(.nearest.as_deref()), list(.known)
    )]
    NoParameter { expr: String, path: String, nearest: Option<String>, known: Vec<String> },
    /// [`Variant::set`](super::Variant::set) found several parts with the parameter.
    #[error(
        "`{}` means several parameters of `{}`: {}; name the part too, or its number with `Variant::set_in`",
        excerpt(.path), excerpt(.expr), list(.candidates)
    )]
    Ambiguous { expr: String, path: String, candidates: Vec<String> },
}

impl ExprError {
    /// The same error inside `place`.
    pub(super) fn inside(self, path: &str) -> ExprError {
        match self {
            ExprError::At { path: inner, source } => ExprError::At { path: format!("{path}{inner}"), source },
            other => ExprError::At { path: path.to_owned(), source: Box::new(other) },
        }
    }

    /// The error without its path.
    #[must_use]
    pub fn root(&self) -> &ExprError {
        match self {
            ExprError::At { source, .. } => source.root(),
            other => other,
        }
    }
}

fn at(column: Option<usize>) -> String {
    column.map(|c| format!("at column {c}: ")).unwrap_or_default()
}
