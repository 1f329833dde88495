//! What may be composed: at most one part changes the normaliser. `compose!` checks it by trait bounds, so that a
//! conflict is a compile error even under `cargo check`; composition by name checks it at run time.

use super::{Described, ErasedVariant, Hook, Normalizer};
use crate::expr::Variant;

/// Whether a variant keeps the softmax or replaces it: `#[attention_variant]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an attention variant",
    label = "this is no variant",
    note = "write `#[attention_variant] impl AttentionVariant for {Self} {{ .. }}`"
)]
pub trait NormalizerKind: Described {
    /// [`Keeps`] or [`Replaces`].
    type Kind;
}

/// Keeps the normaliser of the composition.
#[derive(Clone, Copy, Debug)]
pub struct Keeps;

/// Brings a normaliser of its own.
#[derive(Clone, Copy, Debug)]
pub struct Replaces;

/// A composition of kind `Self` takes another part of kind `K`.
#[diagnostic::on_unimplemented(
    message = "two parts of this composition change the normaliser",
    label = "this is the second part with a `NORMALIZER` of its own",
    note = "keep one of them: weights are made in one way only"
)]
pub trait Accepts<K> {
    /// The kind of the result.
    type Out;
}
impl Accepts<Keeps> for Keeps {
    type Out = Keeps;
}
impl Accepts<Replaces> for Keeps {
    type Out = Replaces;
}
impl Accepts<Keeps> for Replaces {
    type Out = Replaces;
}
// With one impl alone the compiler would take it and speak of mismatched types; with two it says what is wrong.
#[diagnostic::do_not_recommend]
impl Accepts<Nothing> for Replaces {
    type Out = Replaces;
}

/// The kind of no variant.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

/// A composition under construction; what `compose!` expands to.
#[derive(Debug)]
pub struct Chain<K> {
    variant: Variant,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl Chain<Keeps> {
    /// Nothing yet: full attention.
    #[must_use]
    pub fn new() -> Self {
        Chain { variant: Variant::full(), kind: std::marker::PhantomData }
    }
}

impl Default for Chain<Keeps> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> Chain<K> {
    /// Adds a part.
    #[must_use]
    pub fn with<V>(self, part: V) -> Chain<<K as Accepts<V::Kind>>::Out>
    where
        V: NormalizerKind,
        K: Accepts<V::Kind>,
    {
        Chain { variant: self.variant.push(Box::new(part)), kind: std::marker::PhantomData }
    }

    /// The composition.
    #[must_use]
    pub fn finish(self) -> Variant {
        self.variant
    }
}

/// Parts that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComposeError {
    /// Two normalisers.
    #[error("`{first}` and `{second}` both change the normaliser; a composition takes one of them")]
    TwoNormalizers {
        /// The earlier part.
        first: String,
        /// The later part.
        second: String,
    },
    /// A sink enters a denominator, and a plain normaliser keeps none that it could enter.
    #[error("`{sink}` adds a sink, which needs a softmax; `{normalizer}` replaces it by plain weights")]
    SinkWithoutSoftmax {
        /// The part with `sink_logit`.
        sink: String,
        /// The part with the normaliser.
        normalizer: String,
    },
}

/// Checks that parts go together.
pub(crate) fn check(parts: &[Box<dyn ErasedVariant>]) -> Result<(), ComposeError> {
    let name = |part: &dyn ErasedVariant| part.desc().name.to_owned();
    let mut changing = parts.iter().filter(|p| p.normalizer() != Normalizer::Softmax);
    let Some(first) = changing.next() else { return Ok(()) };
    if let Some(second) = changing.next() {
        return Err(ComposeError::TwoNormalizers { first: name(&**first), second: name(&**second) });
    }
    let sink = parts.iter().find(|p| p.desc().has(Hook::SinkLogit));
    match (first.normalizer(), sink) {
        (Normalizer::Plain { .. }, Some(sink)) => {
            Err(ComposeError::SinkWithoutSoftmax { sink: name(&**sink), normalizer: name(&**first) })
        }
        _ => Ok(()),
    }
}
