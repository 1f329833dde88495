//! Combinators as types. `compose!` expands to them; they can also be written by hand.

use std::marker::PhantomData;

use super::kinds::{
    Accepts, AddSink, Join, Keeps, MapPart, Mask, MaskPosition, NestedPosition, NoSink, Part, SameKind, TakenInside,
    TakesSink, UnionBranch, UnionBranchPosition, Unions,
};
use crate::expr::tree::{Node, Variant};

type NormalizerOf<A, B> = <<A as Part>::Normalizer as Accepts<<B as Part>::Normalizer>>::Out;
type SinkOf<A, B> = <<A as Part>::Sink as AddSink<<B as Part>::Sink>>::Out;

/// A composition under construction; `compose!` expands to it. `N` and `S` are its normaliser and its sinks so far.
#[derive(Debug)]
pub struct Chain<N, S> {
    variant: Variant,
    kinds: PhantomData<fn() -> (N, S)>,
}

impl Chain<Keeps, NoSink> {
    /// Starts with full attention.
    #[must_use]
    pub fn new() -> Self {
        Chain { variant: Variant::full(), kinds: PhantomData }
    }
}

impl Default for Chain<Keeps, NoSink> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N, S> Chain<N, S> {
    /// Adds a part.
    #[must_use]
    pub fn with<V>(self, part: V) -> Chain<<N as Accepts<V::Normalizer>>::Out, <S as AddSink<V::Sink>>::Out>
    where
        V: Part,
        N: Accepts<V::Normalizer>,
        S: AddSink<V::Sink>,
        <N as Accepts<V::Normalizer>>::Out: TakesSink<<S as AddSink<V::Sink>>::Out>,
    {
        Chain { variant: self.variant.append(part.into_variant()), kinds: PhantomData }
    }

    /// The composition.
    #[must_use]
    pub fn finish(self) -> Variant {
        self.variant
    }
}

/// Both parts, in order: `a + b`.
#[derive(Clone, Copy, Debug, Default)]
pub struct And<A, B>(pub A, pub B);

impl<A: Part, B: Part> Part for And<A, B>
where
    A::Normalizer: Accepts<B::Normalizer>,
    A::Sink: AddSink<B::Sink>,
    A::Position: Join<B::Position>,
    NormalizerOf<A, B>: TakesSink<SinkOf<A, B>>,
{
    type Normalizer = NormalizerOf<A, B>;
    type Sink = SinkOf<A, B>;
    type Position = <A::Position as Join<B::Position>>::Out;
    fn into_variant(self) -> Variant {
        self.0.into_variant().append(self.1.into_variant())
    }
}

/// A mask: the keys that at least one of two masks attends to. `Or(Or(a, b), c)` is `or(a, b, c)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Or<A, B>(pub A, pub B);

impl<A: Part, B: Part> Part for Or<A, B>
where
    A::Position: MaskPosition,
    B::Position: MaskPosition,
{
    type Normalizer = Keeps;
    type Sink = NoSink;
    type Position = Mask;
    fn into_variant(self) -> Variant {
        Node::or(vec![self.0.into_variant(), self.1.into_variant()]).into()
    }
}

/// A mask: the keys that another mask does not attend to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Not<A>(pub A);

impl<A: Part> Part for Not<A>
where
    A::Position: MaskPosition,
{
    type Normalizer = Keeps;
    type Sink = NoSink;
    type Position = Mask;
    fn into_variant(self) -> Variant {
        Node::Not(self.0.into_variant()).into()
    }
}

/// The part `A` at the positions that the map `F` gives. The mask of the map applies too. Its other hooks run before
/// those of `A`, at the original positions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remap<F, A>(pub F, pub A);

impl<F: MapPart, A: Part> Part for Remap<F, A>
where
    F::Normalizer: Accepts<A::Normalizer>,
    F::Sink: AddSink<A::Sink>,
    F::Position: Join<A::Position> + NestedPosition,
    A::Position: NestedPosition,
    NormalizerOf<F, A>: TakesSink<SinkOf<F, A>>,
{
    type Normalizer = NormalizerOf<F, A>;
    type Sink = SinkOf<F, A>;
    type Position = <F::Position as Join<A::Position>>::Out;
    fn into_variant(self) -> Variant {
        // a map has hooks, so it is one node
        let map = self.0.into_variant().into_nodes().into_iter().next();
        match map {
            Some(Node::Part(map)) => Node::Remap { map, inner: self.1.into_variant() }.into(),
            _ => self.1.into_variant(),
        }
    }
}

/// Marks types of which no value is held.
type Kinds<T> = PhantomData<fn() -> T>;

/// A branch for each query head: `PerHead::new([0, 0, 1, 1]).branch(a).branch(b)`.
#[derive(Clone, Debug)]
pub struct PerHead<N, S, P> {
    heads: Vec<i32>,
    branches: Vec<Variant>,
    kinds: Kinds<(N, S, P)>,
}

impl PerHead<(), NoSink, Mask> {
    /// Starts without branches. `heads[h]` is the number of the branch, from 0, of query head `h`.
    #[must_use]
    pub fn new(heads: impl Into<Vec<i32>>) -> Self {
        PerHead { heads: heads.into(), branches: Vec::new(), kinds: PhantomData }
    }
}

/// The type of `PerHead<_, S, P>` with one more branch `V`.
type WithBranch<S, P, V> =
    PerHead<<V as Part>::Normalizer, <S as AddSink<<V as Part>::Sink>>::Out, <P as Join<<V as Part>::Position>>::Out>;

// the first branch decides the normaliser of the others
macro_rules! first_is_free {
    ($($kind:ident),*) => {$( impl SameKind<super::kinds::$kind> for () {} )*};
}
first_is_free!(Keeps, Replaces, ReplacesPlain);

impl<N, S, P> PerHead<N, S, P> {
    /// Adds a branch.
    #[must_use]
    pub fn branch<V>(mut self, branch: V) -> WithBranch<S, P, V>
    where
        V: Part,
        V::Position: NestedPosition,
        N: SameKind<V::Normalizer>,
        S: AddSink<V::Sink>,
        P: Join<V::Position>,
    {
        self.branches.push(branch.into_variant());
        PerHead { heads: self.heads, branches: self.branches, kinds: PhantomData }
    }
}

macro_rules! per_head_part {
    ($($kind:ident),*) => {$(
        impl<S, P> Part for PerHead<super::kinds::$kind, S, P> {
            type Normalizer = super::kinds::$kind;
            type Sink = S;
            type Position = P;
            fn into_variant(self) -> Variant {
                Node::per_head(self.heads, self.branches).into()
            }
        }
    )*};
}
// not for `()`: at least one branch is needed
per_head_part!(Keeps, Replaces, ReplacesPlain);

/// The keys of `A`, and the keys of `B` that are not keys of `A`, each with the transforms of its branch, under one
/// softmax. `Union(Union(a, b), c)` is `union(a, b, c)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Union<A, B>(pub A, pub B);

impl<A: Part, B: Part> Part for Union<A, B>
where
    A::Position: UnionBranchPosition,
    B::Position: UnionBranchPosition,
{
    type Normalizer = Keeps;
    type Sink = NoSink;
    type Position = Unions;
    fn into_variant(self) -> Variant {
        Node::union(vec![self.0.into_variant(), self.1.into_variant()]).into()
    }
}

/// `a + b`.
pub fn and<A: Part, B: Part>(a: A, b: B) -> And<A, B>
where
    And<A, B>: Part,
{
    And(a, b)
}

/// `or(a, b)`.
pub fn or<A: Part, B: Part>(a: A, b: B) -> Or<A, B>
where
    A::Position: MaskPosition,
    B::Position: MaskPosition,
{
    Or(a, b)
}

/// `not(a)`.
pub fn not<A: Part>(a: A) -> Not<A>
where
    A::Position: MaskPosition,
{
    Not(a)
}

/// `remap(map, inner)`.
pub fn remap<F: MapPart, A: Part>(map: F, inner: A) -> Remap<F, A>
where
    A::Position: NestedPosition,
{
    Remap(map, inner)
}

/// `union(a, b)`.
pub fn union<A: Part, B: Part>(a: A, b: B) -> Union<A, B>
where
    A::Position: UnionBranchPosition,
    B::Position: UnionBranchPosition,
{
    Union(a, b)
}

/// `per_head(heads, ..)`, without branches.
#[must_use]
pub fn per_head(heads: impl Into<Vec<i32>>) -> PerHead<(), NoSink, Mask> {
    PerHead::new(heads)
}

/// An operand whose place the macro checked already, so that an error is reported once.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Checked<A, P>(A, PhantomData<P>);

impl<A: Part, P> Part for Checked<A, P> {
    type Normalizer = A::Normalizer;
    type Sink = A::Sink;
    type Position = P;
    fn into_variant(self) -> Variant {
        self.0.into_variant()
    }
}

impl<A: Part> MapPart for Checked<A, A::Position> {}

/// An operand of `or` and `not`.
#[doc(hidden)]
pub fn a_mask<A: Part>(a: A) -> Checked<A, Mask>
where
    A::Position: MaskPosition,
{
    Checked(a, PhantomData)
}

/// An operand of `union`.
#[doc(hidden)]
pub fn a_union_branch<A: Part>(a: A) -> Checked<A, UnionBranch>
where
    A::Position: UnionBranchPosition,
{
    Checked(a, PhantomData)
}

/// The inner operand of `remap`.
#[doc(hidden)]
pub fn inside<A: Part>(a: A) -> Checked<A, <A::Position as TakenInside>::Out>
where
    A::Position: NestedPosition + TakenInside,
{
    Checked(a, PhantomData)
}

/// The map of a `remap`.
#[doc(hidden)]
pub fn a_map<F: MapPart>(map: F) -> Checked<F, F::Position> {
    Checked(map, PhantomData)
}
