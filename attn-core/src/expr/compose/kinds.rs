//! Facts about a part as types: its normaliser, its sink, and where it may stand.

use crate::expr::tree::Variant;

/// A part of a composition: a variant (`#[attention_variant]` implements it), or [`Or`](super::Or),
/// [`Not`](super::Not), [`Remap`](super::Remap), [`PerHead`](super::PerHead), [`Union`](super::Union) or
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
    /// Where it may stand: [`Mask`], [`UnionBranch`], [`Nested`], [`Unions`] or [`Outer`].
    type Position;
    /// The part as a variant.
    fn into_variant(self) -> Variant;
}

/// What `variant_test!` takes: a variant, a composition, or a [`Variant`].
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

/// Has a normaliser with a running maximum.
#[derive(Clone, Copy, Debug)]
pub struct Replaces;

/// Has a normaliser with plain weights, which need no running maximum.
#[derive(Clone, Copy, Debug)]
pub struct ReplacesPlain;

/// The kind of no part. With a single impl the compiler infers that one and reports mismatched types; a second impl,
/// for this kind, makes it report the unmet bound.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

/// A composition with normaliser `Self` can take another part with normaliser `K`.
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

/// Branches with normaliser `Self` can take another branch with normaliser `K`.
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

/// A normaliser `Self` can take sinks `S`.
#[diagnostic::on_unimplemented(
    message = "a sink and plain weights do not go together",
    label = "with this part, the composition has both",
    note = "a sink is a key of the softmax's denominator, and `Normalizer::Plain` has none that it could enter: take \
     one of them out"
)]
pub trait TakesSink<S> {}
impl<S> TakesSink<S> for Keeps {}
impl<S> TakesSink<S> for Replaces {}
impl TakesSink<NoSink> for ReplacesPlain {}
#[diagnostic::do_not_recommend]
impl TakesSink<Nothing> for ReplacesPlain {}

/// Masks keys, or rewrites positions for the inner parts of `remap`: it may stand anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Mask;

/// Transforms queries, keys, values or logits: not under `or` and `not`.
#[derive(Clone, Copy, Debug)]
pub struct UnionBranch;

/// Has a normaliser, a sink or an output transform: also not in a branch of `union`.
#[derive(Clone, Copy, Debug)]
pub struct Nested;

/// Is a union: at the top level, or in another union.
#[derive(Clone, Copy, Debug)]
pub struct Unions;

/// Has a key list, or a union beside other parts: at the top level only.
#[derive(Clone, Copy, Debug)]
pub struct Outer;

/// The stricter of two places: the place of two parts together.
pub trait Join<P> {
    /// [`Mask`], [`UnionBranch`], [`Nested`] or [`Outer`].
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
    Mask: Mask => Mask, UnionBranch => UnionBranch, Nested => Nested, Unions => Outer, Outer => Outer;
    UnionBranch: Mask => UnionBranch, UnionBranch => UnionBranch, Nested => Nested, Unions => Outer, Outer => Outer;
    Nested: Mask => Nested, UnionBranch => Nested, Nested => Nested, Unions => Outer, Outer => Outer;
    Unions: Mask => Outer, UnionBranch => Outer, Nested => Outer, Unions => Outer, Outer => Outer;
    Outer: Mask => Outer, UnionBranch => Outer, Nested => Outer, Unions => Outer, Outer => Outer;
}

/// May stand under `or` and `not`.
#[diagnostic::on_unimplemented(
    message = "`or` and `not` take masks alone",
    label = "this part does more than to mask keys",
    note = "compose it outside: `or(a, b) + part`, `not(a) + part`"
)]
pub trait MaskPosition {}
impl MaskPosition for Mask {}

/// May be a branch of `union`.
#[diagnostic::on_unimplemented(
    message = "a branch of `union` cannot change how rows are finished",
    label = "this branch has a normaliser, a sink, an output transform, a key list or a union of its own",
    note = "compose that part outside: `union(a, b) + part`"
)]
pub trait UnionBranchPosition {}
impl UnionBranchPosition for Mask {}
impl UnionBranchPosition for UnionBranch {}
// a union in a union is flattened
impl UnionBranchPosition for Unions {}

/// The place that is assumed under `remap` after [`NestedPosition`] refused the part, so that an error is reported
/// once.
#[doc(hidden)]
pub trait TakenInside {
    /// The place itself where [`NestedPosition`] accepts it.
    type Out;
}
macro_rules! taken_inside {
    ($($position:ident => $out:ident),*) => {$( impl TakenInside for $position { type Out = $out; } )*};
}
taken_inside!(Mask => Mask, UnionBranch => UnionBranch, Nested => Nested, Unions => Nested, Outer => Nested);

/// May stand under `remap` and `per_head`.
#[diagnostic::on_unimplemented(
    message = "a key list or a union cannot stand inside another combinator",
    label = "this part has a key list, or is a union",
    note = "compose it outside: `remap(map, a) + part`, `per_head(heads, a, b) + part`"
)]
pub trait NestedPosition {}
impl NestedPosition for Mask {}
impl NestedPosition for UnionBranch {}
impl NestedPosition for Nested {}
