//! What can be wrong with an expression.

use crate::lang::params::{did_you_mean, list};
use crate::lang::{ComposeError, ParamError};
use crate::registry::RegistryError;

/// What can be wrong with an expression. Columns count characters from 1.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExprError {
    /// Not in the grammar.
    #[error("at column {column}: expected {expected}, found {found}\n  {text}\n  {:>column$}", "^")]
    Syntax {
        /// The expression.
        text: String,
        /// Where.
        column: usize,
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// No variant has this name.
    #[error("{}no variant `{name}`{}; there are: {}", at(*.column), did_you_mean(.nearest.as_deref()), list(.known))]
    UnknownVariant {
        /// Where, in a text.
        column: Option<usize>,
        /// What was asked.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
        /// What there is.
        known: Vec<String>,
    },
    /// A part's parameters are wrong.
    #[error("{}in `{variant}`: {source}", at(*.column))]
    Param {
        /// Where the part or its parameter stands, in a text.
        column: Option<usize>,
        /// The part.
        variant: String,
        /// What is wrong.
        source: Box<ParamError>,
    },
    /// What is wrong inside a structured form, and where: `[1].or[0]` is the first operand of the `or` that is the second part.
    #[error("at `{place}`: {source}")]
    At {
        /// The place.
        place: String,
        /// What is wrong there.
        source: Box<ExprError>,
    },
    /// Combinators inside each other, more than anyone reads.
    #[error("more than {most} combinators inside each other")]
    Depth {
        /// How many there may be.
        most: usize,
    },
    /// A combinator of a structured form that takes more operands.
    #[error("`{combinator}` takes {takes}; here are {got}")]
    Operands {
        /// Its name.
        combinator: &'static str,
        /// What it takes.
        takes: &'static str,
        /// How many were given.
        got: usize,
    },
    /// Parts that do not go together.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// The registry itself is wrong.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// [`Variant::set`](super::Variant::set) of a name that no part has.
    #[error("no part of `{expr}` has a parameter `{path}`{}; there are: {}", did_you_mean(.nearest.as_deref()), list(.known))]
    NoParameter {
        /// The expression.
        expr: String,
        /// What was asked.
        path: String,
        /// The nearest there is.
        nearest: Option<String>,
        /// What there is.
        known: Vec<String>,
    },
    /// [`Variant::set`](super::Variant::set) of a name that several parts have.
    #[error(
        "`{path}` means several parameters of `{expr}`: {}; name the part too, or its number with `Variant::set_in`",
        list(.candidates)
    )]
    Ambiguous {
        /// The expression.
        expr: String,
        /// What was asked.
        path: String,
        /// What it may mean.
        candidates: Vec<String>,
    },
}

impl ExprError {
    /// The same error, inside `place`.
    pub(super) fn inside(self, place: &str) -> ExprError {
        match self {
            ExprError::At { place: inner, source } => ExprError::At { place: format!("{place}{inner}"), source },
            other => ExprError::At { place: place.to_owned(), source: Box::new(other) },
        }
    }

    /// What is wrong, without the place.
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
