//! Errors of expressions.

use crate::excerpt::{excerpt, list, marked};
use crate::lang::params::did_you_mean;
use crate::lang::{ComposeError, ParamError};
use crate::registry::RegistryError;

/// Errors of an expression. Columns count characters from 1.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExprError {
    /// A syntax error.
    #[error("at column {column}: expected {expected}, found {found}\n{}", marked(.text, *.column))]
    Syntax {
        /// The expression.
        text: String,
        /// Column.
        column: usize,
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// No variant has this name.
    #[error(
        "{}no variant `{}`{}; there are: {}; that of a crate is there once it is linked: `use the_crate as _;`",
        at(*.column), excerpt(.name), did_you_mean(.nearest.as_deref()), list(.known)
    )]
    UnknownVariant {
        /// Column, in a text.
        column: Option<usize>,
        /// The name that was given.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
        /// The known names.
        known: Vec<String>,
    },
    /// No KV format has this name.
    #[error(
        "{}no KV format `{}`{}; there are: {}",
        at(*.column), excerpt(.name), did_you_mean(.nearest.as_deref()), list(.known)
    )]
    UnknownKvFormat {
        /// Column, in a text.
        column: Option<usize>,
        /// The name that was given.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
        /// The known names.
        known: Vec<String>,
    },
    /// The parameters of a part are wrong.
    #[error("{}in `{variant}`: {source}", at(*.column))]
    Param {
        /// Column of the part or of its parameter, in a text.
        column: Option<usize>,
        /// The part.
        variant: String,
        /// What is wrong.
        source: Box<ParamError>,
    },
    /// An error inside the structured form, with its path: `[1].or[0]` is the first operand of the `or` that is the
    /// second element.
    #[error("at `{path}`: {source}")]
    At {
        /// The place.
        path: String,
        /// What is wrong there.
        source: Box<ExprError>,
    },
    /// The expression costs more than an expression may.
    #[error("the expression has {found} {budget}, and an expression has at most {most}: {way_out}")]
    Budget {
        /// What there is too much of.
        budget: &'static str,
        /// How much of it there is; of parts, up to where reading stopped.
        found: usize,
        /// The most that there may be.
        most: usize,
        /// What to do instead.
        way_out: &'static str,
    },
    /// Combinators are nested too deeply.
    #[error("more than {most} combinators inside each other")]
    Depth {
        /// How many there may be.
        most: usize,
    },
    /// A combinator of the structured form has too few or too many operands.
    #[error("`{combinator}` takes {takes}; here are {got}")]
    Operands {
        /// Its name.
        combinator: &'static str,
        /// The number of operands that it takes.
        takes: &'static str,
        /// How many were given.
        got: usize,
    },
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
    NoParameter {
        /// The expression.
        expr: String,
        /// The name that was given.
        path: String,
        /// The nearest known name.
        nearest: Option<String>,
        /// The known names.
        known: Vec<String>,
    },
    /// [`Variant::set`](super::Variant::set) found several parts with the parameter.
    #[error(
        "`{}` means several parameters of `{}`: {}; name the part too, or its number with `Variant::set_in`",
        excerpt(.path), excerpt(.expr), list(.candidates)
    )]
    Ambiguous {
        /// The expression.
        expr: String,
        /// The name that was given.
        path: String,
        /// The parameters that match the name.
        candidates: Vec<String>,
    },
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
