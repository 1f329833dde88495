//! The facts about a part that decide, while compiling, where it may stand.

use crate::expr::Variant;

/// What a composition is made of: a variant (`#[attention_variant]` implements it), or [`Or`](super::Or),
/// [`Not`](super::Not), [`Remap`](super::Remap), [`PerHead`](super::PerHead), [`Union`](super::Union) and
/// [`And`](super::And) of parts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an attention variant",
    label = "this is no variant",
    note = "write `#[attention_variant] impl AttentionVariant for {Self} {{ .. }}`"
)]
pub trait Part {
    /// What it does to the normaliser: [`Keeps`], [`Replaces`] or [`ReplacesPlain`].
    type Normalizer;
    /// Whether it adds a sink: [`NoSink`] or [`HasSink`].
    type Sink;
    /// Where it may stand: [`Mask`], [`Arm`], [`Inner`], [`Unions`] or [`Outer`].
    type Place;
    /// It alone, as a variant to be run.
    fn into_variant(self) -> Variant;
}

/// What `variant_test!` takes: a variant of one's own, a composition, or a [`Variant`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an attention variant",
    label = "this is no variant",
    note = "write `#[attention_variant] impl AttentionVariant for {Self} {{ .. }}`"
)]
#[doc(hidden)]
pub trait Tested {
    /// The variant to be tested.
    fn into_variant(self) -> Variant;
}
impl<P: Part> Tested for P {
    fn into_variant(self) -> Variant {
        Part::into_variant(self)
    }
}
impl Tested for Variant {
    fn into_variant(self) -> Variant {
        self
    }
}

/// A variant that rewrites positions, by `remap_qo_pos` or `remap_kv_pos`: `#[attention_variant]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` rewrites no position, so it cannot be the map of `remap`",
    label = "this variant has neither `remap_qo_pos` nor `remap_kv_pos`",
    note = "the map comes first: `remap(map, inner)`"
)]
pub trait MapPart: Part {}

/// Keeps the normaliser of the composition.
#[derive(Clone, Copy, Debug)]
pub struct Keeps;

/// Brings a normaliser of its own that has a running maximum.
#[derive(Clone, Copy, Debug)]
pub struct Replaces;

/// Brings plain weights, which have no running maximum.
#[derive(Clone, Copy, Debug)]
pub struct ReplacesPlain;

/// Of no part. With one impl alone the compiler would take it and speak of mismatched types; with a second one, for this,
/// it says what is wrong.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

/// A composition with normaliser `Self` takes another part with normaliser `K`.
#[diagnostic::on_unimplemented(
    message = "two parts of this composition change the normaliser",
    label = "this is the second part with a `NORMALIZER` of its own",
    note = "keep one of them: weights are made in one way only"
)]
pub trait Accepts<K> {
    /// The normaliser of both.
    type Out;
}
impl<K> Accepts<K> for Keeps {
    type Out = K;
}
impl Accepts<Keeps> for Replaces {
    type Out = Replaces;
}
#[diagnostic::do_not_recommend]
impl Accepts<Nothing> for Replaces {
    type Out = Replaces;
}
impl Accepts<Keeps> for ReplacesPlain {
    type Out = ReplacesPlain;
}
#[diagnostic::do_not_recommend]
impl Accepts<Nothing> for ReplacesPlain {
    type Out = ReplacesPlain;
}

/// Branches with normaliser `Self` take another branch with normaliser `K`.
#[diagnostic::on_unimplemented(
    message = "the branches of this `per_head` make weights in different ways",
    label = "this branch changes the normaliser, or keeps it, unlike the branches before it",
    note = "move the part with a `NORMALIZER` of its own out of `per_head`, or into every branch"
)]
pub trait SameKind<K> {}
impl SameKind<Keeps> for Keeps {}
impl SameKind<Replaces> for Replaces {}
impl SameKind<ReplacesPlain> for ReplacesPlain {}
#[diagnostic::do_not_recommend]
impl SameKind<Nothing> for Keeps {}
#[diagnostic::do_not_recommend]
impl SameKind<Nothing> for Replaces {}
#[diagnostic::do_not_recommend]
impl SameKind<Nothing> for ReplacesPlain {}

/// Adds no sink.
#[derive(Clone, Copy, Debug)]
pub struct NoSink;

/// Adds a sink.
#[derive(Clone, Copy, Debug)]
pub struct HasSink;

/// Whether one of two parts adds a sink.
pub trait AddSink<S> {
    /// [`NoSink`] or [`HasSink`].
    type Out;
}
impl<S> AddSink<S> for NoSink {
    type Out = S;
}
impl<S> AddSink<S> for HasSink {
    type Out = HasSink;
}

/// A normaliser `Self` goes with sinks `S`.
#[diagnostic::on_unimplemented(
    message = "a sink and plain weights do not go together",
    label = "with this part, the composition has both",
    note = "a sink is a key of the softmax's denominator, and `Normalizer::Plain` has none that it could enter: take one of them out"
)]
pub trait TakesSink<S> {}
impl<S> TakesSink<S> for Keeps {}
impl<S> TakesSink<S> for Replaces {}
impl TakesSink<NoSink> for ReplacesPlain {}
#[diagnostic::do_not_recommend]
impl TakesSink<Nothing> for ReplacesPlain {}

/// Only masks keys, or rewrites positions for what stands under a `remap`: it may stand anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Mask;

/// Transforms queries, keys, values or logits: not under `or` and `not`.
#[derive(Clone, Copy, Debug)]
pub struct Arm;

/// Changes how rows are finished (normaliser, sink, output transform): not in an arm of `union` either.
#[derive(Clone, Copy, Debug)]
pub struct Inner;

/// Is a union: at the top, or one with another union.
#[derive(Clone, Copy, Debug)]
pub struct Unions;

/// Has a key list, or a union beside something else: at the top only.
#[derive(Clone, Copy, Debug)]
pub struct Outer;

/// The stricter of two places: that of two parts together.
pub trait Join<P> {
    /// [`Mask`], [`Arm`], [`Inner`] or [`Outer`].
    type Out;
}
macro_rules! join {
    ($($a:ident: $($b:ident => $out:ident),*;)*) => {$($(
        impl Join<$b> for $a {
            type Out = $out;
        }
    )*)*};
}
join! {
    Mask: Mask => Mask, Arm => Arm, Inner => Inner, Unions => Outer, Outer => Outer;
    Arm: Mask => Arm, Arm => Arm, Inner => Inner, Unions => Outer, Outer => Outer;
    Inner: Mask => Inner, Arm => Inner, Inner => Inner, Unions => Outer, Outer => Outer;
    Unions: Mask => Outer, Arm => Outer, Inner => Outer, Unions => Outer, Outer => Outer;
    Outer: Mask => Outer, Arm => Outer, Inner => Outer, Unions => Outer, Outer => Outer;
}

/// May stand under `or` and `not`.
#[diagnostic::on_unimplemented(
    message = "`or` and `not` take masks alone",
    label = "this part does more than to mask keys",
    note = "compose it outside: `or(a, b) + part`, `not(a) + part`"
)]
pub trait MaskPlace {}
impl MaskPlace for Mask {}

/// May be an arm of `union`.
#[diagnostic::on_unimplemented(
    message = "an arm of `union` cannot change how rows are finished",
    label = "this arm has a normaliser, a sink, an output transform, a key list or a union of its own",
    note = "compose that part outside: `union(a, b) + part`"
)]
pub trait ArmPlace {}
impl ArmPlace for Mask {}
impl ArmPlace for Arm {}
// the arms of the inner one follow each other in the outer one
impl ArmPlace for Unions {}

/// What a place is taken for under `remap`, where [`InnerPlace`] refused it already: a wrong part is said once.
#[doc(hidden)]
pub trait TakenInside {
    /// Itself, where it may stand there.
    type Out;
}
macro_rules! taken_inside {
    ($($place:ident => $out:ident),*) => {$( impl TakenInside for $place { type Out = $out; } )*};
}
taken_inside!(Mask => Mask, Arm => Arm, Inner => Inner, Unions => Inner, Outer => Inner);

/// May stand under `remap` and `per_head`.
#[diagnostic::on_unimplemented(
    message = "a key list or a union cannot stand inside another combinator",
    label = "this part has a key list, or is a union",
    note = "compose it outside: `remap(map, a) + part`, `per_head(heads, a, b) + part`"
)]
pub trait InnerPlace {}
impl InnerPlace for Mask {}
impl InnerPlace for Arm {}
impl InnerPlace for Inner {}
