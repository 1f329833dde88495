//! The data of a variant: its nodes, the variants inside them, and how keys and values are stored.

use std::sync::Arc;

use super::kv_storage::KvStorage;
use crate::dtype::{Dtypes, DtypesError};
use crate::lang::{ErasedVariant, KvFormats};
use crate::spec::{HeadDimVo, KvStored};

/// A composed variant: an ordered list of parts and combinators ([`Node`]). The empty list is full attention.
///
/// It is made from a text ([`Variant::parse`]), from types (`compose!`, [`Variant::from`]), or by serde
/// ([`VariantSpec`](super::VariantSpec)). [`Display`](std::fmt::Display) writes the canonical expression, which parses
/// back to an equal variant.
///
/// The methods named after hooks run on the CPU. Kernels are generated from the CUDA text of the parts.
#[derive(Clone, Default, PartialEq)]
pub struct Variant {
    pub(super) nodes: Vec<Node>,
    pub(super) kv: KvStorage,
}

/// An element of a [`Variant`]: a part, or a combinator over variants.
#[derive(Clone)]
#[non_exhaustive]
pub enum Node {
    /// A registered variant with its parameters.
    Part(Box<dyn ErasedVariant>),
    /// A mask: the keys that at least one of these masks attends to.
    Or(Vec<Variant>),
    /// A mask: the keys that this mask does not attend to.
    Not(Variant),
    /// A mask: the keys that an earlier branch of a union does not attend to. [`Variant::branches`] makes it. Other
    /// hooks of its parts do not run.
    Except(Variant),
    /// `inner` at the positions that `map` gives. The mask of `map` applies too. Other hooks of `map` run before those
    /// of `inner`, at the original positions.
    Remap {
        /// The part with `remap_qo_pos` or `remap_kv_pos`.
        map: Box<dyn ErasedVariant>,
        /// The variant that sees the new positions.
        inner: Variant,
    },
    /// A branch for each query head.
    PerHead(PerHeadNode),
    /// Disjoint sets of keys, each with its own transforms, under one softmax. Its hooks run once for each of
    /// [`Variant::branches`]; here it is a mask only: the keys of any branch.
    Union(Vec<Variant>),
}

/// `per_head(heads=[0, 0, 1, 1], a, b)`: query heads 0 and 1 have the hooks of `a`, 2 and 3 those of `b`.
#[derive(Clone, Debug)]
pub struct PerHeadNode {
    pub(super) heads: Arc<[i32]>,
    /// The branch of each KV head, once bound: for hooks of keys and values.
    pub(super) kv_heads: Option<Arc<[i32]>>,
    pub(super) branches: Vec<Variant>,
}

impl Variant {
    /// Full attention: no parts.
    #[must_use]
    pub fn full() -> Self {
        Self::default()
    }

    /// A variant of these nodes, unchecked.
    pub(crate) fn of(nodes: Vec<Node>) -> Self {
        Variant { nodes, kv: KvStorage::default() }
    }

    /// The variant over keys and values stored in this form. It applies to the whole composition; operands of
    /// combinators do not have a form of their own.
    #[must_use]
    pub fn with_stored(mut self, stored: KvStored) -> Self {
        self.kv.stored = stored;
        self
    }

    /// How it expects keys and values to be stored.
    #[must_use]
    pub fn stored(&self) -> KvStored {
        self.kv.stored
    }

    /// The variant over keys and values that are stored in these formats.
    #[must_use]
    pub fn with_kv_formats(mut self, formats: KvFormats) -> Self {
        self.kv.formats = Some(formats);
        self
    }

    /// The formats of keys and values; `None` if their elements are numbers.
    #[must_use]
    pub fn kv_formats(&self) -> Option<&KvFormats> {
        self.kv.formats.as_ref()
    }

    /// The variant without formats of keys and values.
    #[must_use]
    pub fn without_kv_formats(&self) -> Self {
        Variant { nodes: self.nodes.clone(), kv: KvStorage { stored: self.kv.stored, formats: None } }
    }

    /// The variant over keys and values of these types, and the types with the formats that either of them names.
    ///
    /// # Errors
    ///
    /// [`DtypesError`] for types and formats of keys and values that do not go together. The type of queries is left to
    /// [`Dtypes::check`].
    pub fn over(&self, dtypes: Dtypes, head_dim_vo: HeadDimVo) -> Result<(Variant, Dtypes), DtypesError> {
        let (formats, dtypes) = self.kv.over(dtypes, head_dim_vo)?;
        Ok((Variant { nodes: self.nodes.clone(), kv: KvStorage { stored: self.kv.stored, formats } }, dtypes))
    }

    /// The variant over keys and values that are stored as those of `other`: transformed or not, in its formats unless
    /// this variant has formats.
    #[must_use]
    pub fn stored_as(self, other: &Variant) -> Self {
        Variant { nodes: self.nodes, kv: self.kv.like(&other.kv) }
    }

    /// What an append to a cache of this variant does: its transforms, where keys and values are stored transformed,
    /// and its formats. `None` where rows are stored as they are given.
    #[must_use]
    pub fn of_appends(&self) -> Option<Variant> {
        match (self.kv.stored, &self.kv.formats) {
            (KvStored::Transformed, _) => Some(self.clone().with_stored(KvStored::Raw)),
            (KvStored::Raw, Some(formats)) => Some(Variant::full().with_kv_formats(formats.clone())),
            (KvStored::Raw, None) => None,
        }
    }

    /// Appends a part, unchecked. The identity adds nothing.
    pub(crate) fn push(mut self, part: Box<dyn ErasedVariant>) -> Self {
        if !(part.desc().hooks.is_empty() && part.desc().fields.is_empty()) {
            self.nodes.push(Node::Part(part));
        }
        self
    }

    /// Appends the nodes of another variant, unchecked.
    pub(crate) fn append(mut self, other: Variant) -> Self {
        self.nodes.extend(other.nodes);
        self.kv.formats = self.kv.formats.or(other.kv.formats);
        self
    }

    /// Parts and combinators, as written.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// The parts as written, including those inside combinators.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &dyn ErasedVariant> {
        fn collect<'v>(variant: &'v Variant, parts: &mut Vec<&'v dyn ErasedVariant>) {
            for (part, inner) in variant.nodes.iter().map(Node::inside) {
                parts.extend(part);
                inner.iter().for_each(|variant| collect(variant, parts));
            }
        }
        let mut parts = Vec::new();
        collect(self, &mut parts);
        parts.into_iter()
    }

    /// Whether the composition has a `union`. It then runs once for each branch.
    #[must_use]
    pub fn has_union(&self) -> bool {
        self.nodes().iter().any(|node| matches!(node, Node::Union(_)))
    }
}
