//! A variant to be run: an ordered list of parts and combinators.

use std::fmt;
use std::str::FromStr;

use super::error::ExprError;
use super::node::Node;
use super::parse;
use crate::lang::compose::check;
use crate::lang::params::{ArgVisitor, ShapeProblem, TensorArg};
use crate::lang::table::OutBuffer;
use crate::lang::{
    BindError, ComposeError, Described, Dims, ErasedVariant, FieldDesc, FieldType, Hook, Normalizer, ParamValue,
    ParamValues,
};
use crate::nearest::nearest;
use crate::registry::Registry;
use crate::spec::KvStored;

/// A variant to be run: an ordered list of parts and combinators ([`Node`]), composed. None are full attention.
///
/// It comes from a text ([`Variant::parse`]), from types (`compose!`, [`Variant::from`]), or from serde
/// ([`VariantSpec`](super::VariantSpec)). Its [`Display`](fmt::Display) is the canonical expression, which parses back to an equal variant.
///
/// Its hooks run on the CPU by the methods of their names; kernels are made of its text.
#[derive(Clone, Default, PartialEq)]
pub struct Variant {
    nodes: Vec<Node>,
    stored: KvStored,
}

/// A tensor that was not given and has no default.
#[derive(Clone, Debug)]
pub struct MissingTensor {
    /// Number of the part that has it.
    pub part: usize,
    /// Its descriptor.
    pub field: &'static FieldDesc,
    /// Its extents, as far as the sizes are known.
    pub shape: Option<Vec<i64>>,
}

/// For each field, whether it is a tensor to store to that is there.
#[derive(Default)]
struct OutputsSet(Vec<bool>);

impl ArgVisitor for OutputsSet {
    fn scalar(&mut self, _: u32) {
        self.0.push(false);
    }
    fn tensor(&mut self, _: TensorArg<'_>) {
        self.0.push(false);
    }
    fn out(&mut self, buffer: Option<&OutBuffer>, _: &[i64]) {
        self.0.push(buffer.is_some());
    }
}

impl Variant {
    /// Full attention: no parts.
    #[must_use]
    pub fn full() -> Self {
        Self::default()
    }

    /// Reads an expression over the variants of the program; the grammar is in [`expr`](crate::expr).
    ///
    /// # Errors
    /// Each names the column, what stands there, and what may.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        Self::parse_with(text, &*Registry::global()?)
    }

    /// Reads an expression over the variants of a registry.
    ///
    /// # Errors
    /// As [`Variant::parse`].
    pub fn parse_with(text: &str, registry: &Registry) -> Result<Self, ExprError> {
        parse::parse(text, registry)
    }

    /// `self`, then the parts of `other`.
    ///
    /// # Errors
    /// They do not go together: both change the normaliser, or one brings a sink that the other's normaliser has no place
    /// for, ..
    pub fn and(self, other: impl Into<Variant>) -> Result<Self, ComposeError> {
        let both = self.append(other.into());
        check::check(&both).map(|()| both)
    }

    /// Of nodes, without checking that they go together.
    pub(crate) fn of(nodes: Vec<Node>) -> Self {
        Variant { nodes, stored: KvStored::Raw }
    }

    /// The variant over keys and values that are stored so. It is said of the whole: what a combinator takes has nothing to say.
    #[must_use]
    pub fn over(mut self, stored: KvStored) -> Self {
        self.stored = stored;
        self
    }

    /// What it takes the keys and values in memory to be.
    #[must_use]
    pub fn stored(&self) -> KvStored {
        self.stored
    }

    /// Adds a part without checking that it goes together with the others. The identity adds nothing.
    pub(crate) fn push(mut self, part: Box<dyn ErasedVariant>) -> Self {
        if !(part.desc().hooks.is_empty() && part.desc().fields.is_empty()) {
            self.nodes.push(Node::Part(part));
        }
        self
    }

    /// Adds the nodes of another, unchecked.
    pub(crate) fn append(mut self, other: Variant) -> Self {
        self.nodes.extend(other.nodes);
        self
    }

    /// Checks that the parts go together.
    pub(super) fn checked(self) -> Result<Self, ExprError> {
        check::check(&self)?;
        Ok(self)
    }

    /// Parts and combinators, in order of writing.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// The parts in order of writing, those inside combinators too.
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

    /// Whether a hook of this name does something in the composition. What stands under `or` and `not` has no say but in the
    /// mask; keys and values that are stored transformed are not transformed.
    #[must_use]
    pub fn has(&self, hook: Hook) -> bool {
        !self.is_stored(hook) && self.nodes.iter().any(|node| node.has(hook))
    }

    /// A part, and an index word, by which keys or values are rewritten for one request alone: `batch`, `kv_token` or `kv_len`. `None` where keys that
    /// several requests share may be rewritten once for all of them.
    #[must_use]
    pub fn rewrites_for_one(&self) -> Option<(&'static str, &'static str)> {
        if !self.has(Hook::KeyTransform) && !self.has(Hook::ValueTransform) {
            return None;
        }
        self.parts().find_map(|part| Some((part.desc().name, *part.desc().kv_words.first()?)))
    }

    /// Whether a hook is left out, since keys and values are stored as it makes them.
    pub(super) fn is_stored(&self, hook: Hook) -> bool {
        self.stored == KvStored::Transformed && matches!(hook, Hook::KeyTransform | Hook::ValueTransform)
    }

    /// The normaliser: of the part that changes it, else softmax.
    #[must_use]
    pub fn normalizer(&self) -> Normalizer {
        let mut all = self.nodes.iter().map(Node::normalizer);
        all.find(|n| *n != Normalizer::Softmax).unwrap_or(Normalizer::Softmax)
    }

    /// Sets a parameter: `soft_cap.cap`, or `cap` where one part alone has it.
    ///
    /// # Errors
    /// No part or several parts have it, or the part refuses the value; the variant is then unchanged.
    pub fn set(&mut self, path: &str, value: ParamValue) -> Result<(), ExprError> {
        let (part, field) = self.place_of(path)?;
        self.set_in(part, field, value)
    }

    /// The number of the part, and the field, that a path names.
    pub(super) fn place_of(&self, path: &str) -> Result<(usize, &'static str), ExprError> {
        let known: Vec<(usize, String, &'static str)> = (self.parts().enumerate())
            .flat_map(|(i, part)| {
                let desc = part.desc();
                desc.fields.iter().map(move |f| (i, format!("{}.{}", desc.name, f.name), f.name))
            })
            .collect();
        let found: Vec<_> = known.iter().filter(|(_, full, short)| full == path || *short == path).collect();
        let &[(i, _, field)] = found.as_slice() else {
            let names =
                |list: &[&(usize, String, &'static str)]| list.iter().map(|(_, full, _)| full.clone()).collect();
            return Err(if found.is_empty() {
                let known: Vec<String> = known.into_iter().map(|(_, full, _)| full).collect();
                let words = known.iter().flat_map(|full| [Some(full.as_str()), full.split('.').nth(1)]).flatten();
                let nearest = nearest(path, words).map(str::to_owned);
                ExprError::NoParameter { expr: self.to_string(), path: path.to_owned(), nearest, known }
            } else {
                ExprError::Ambiguous { expr: self.to_string(), path: path.to_owned(), candidates: names(&found) }
            });
        };
        Ok((*i, *field))
    }

    /// Sets a parameter of part number `part`, where a name alone does not tell two parts apart.
    ///
    /// # Errors
    /// There is no such part, or it refuses the name or the value; the variant is then unchanged.
    pub fn set_in(&mut self, part: usize, name: &str, value: ParamValue) -> Result<(), ExprError> {
        let expr = self.to_string();
        let Some(slot) = nth(&mut self.nodes, &mut { part }) else {
            let fields = |(i, part): (usize, &dyn ErasedVariant)| {
                part.desc().fields.iter().map(move |f| format!("{i}.{}", f.name))
            };
            let known = self.parts().enumerate().flat_map(fields).collect();
            return Err(ExprError::NoParameter { expr, path: format!("{part}.{name}"), nearest: None, known });
        };
        let mut values = ParamValues::default();
        values.set(name, value);
        slot.set_values(&values).map_err(|source| ExprError::Param {
            column: None,
            variant: slot.desc().name.to_owned(),
            source: Box::new(source),
        })
    }

    /// The tensors that were not given and have no default, which a binding would refuse.
    ///
    /// # Errors
    /// A shape that overflows or divides by zero with these values.
    pub fn missing(&self, dims: &Dims) -> Result<Vec<MissingTensor>, BindError> {
        let mut missing = Vec::new();
        for (part, variant) in self.parts().enumerate() {
            let values = variant.to_values();
            let mut set = OutputsSet::default();
            variant.visit_args(&mut set);
            for (i, field) in variant.desc().fields.iter().enumerate() {
                let given = match field.ty {
                    FieldType::Scalar(_) => true,
                    FieldType::Tensor { .. } => values.get(field.name).is_some(),
                    FieldType::Out { .. } => set.0.get(i).copied().unwrap_or(false),
                };
                if given || field.default.is_some() {
                    continue;
                }
                let shape = match variant.shape(i, dims) {
                    Ok(shape) => Some(shape),
                    Err(ShapeProblem::Unknown) => None,
                    Err(ShapeProblem::Arithmetic) => {
                        let (name, shape) = (field.name.to_owned(), field.shape.to_owned());
                        return Err(BindError::ShapeArithmetic { name, shape });
                    }
                };
                missing.push(MissingTensor { part, field, shape });
            }
        }
        Ok(missing)
    }

    /// A copy that is ready to run with these sizes: conditions checked, unset tensors filled from their defaults,
    /// shapes checked as far as `dims` knows them. Binding again with more sizes known is how planning goes on.
    ///
    /// # Errors
    /// Parts do not go together; or the part and the parameter, its value, and what is allowed.
    pub fn bind(&self, dims: &Dims) -> Result<Variant, BindError> {
        check::check(self)?;
        let mut bound = self.clone();
        bound.bind_nodes(dims)?;
        Ok(bound)
    }

    fn bind_nodes(&mut self, dims: &Dims) -> Result<(), BindError> {
        for node in &mut self.nodes {
            if let Node::PerHead(per_head) = node {
                per_head.bind(dims)?;
            }
            let (part, inner) = node.inside_mut();
            if let Some(part) = part {
                let name = part.desc().name;
                part.bind(dims)
                    .map_err(|source| BindError::Part { variant: name.to_owned(), source: Box::new(source) })?;
            }
            inner.iter_mut().try_for_each(|variant| variant.bind_nodes(dims))?;
        }
        Ok(())
    }

    /// Visits the parameters of the parts in order, as kernel arguments; of a `per_head`, its tables before its branches.
    pub fn visit_args(&self, visitor: &mut dyn ArgVisitor) {
        for node in &self.nodes {
            if let Node::PerHead(per_head) = node {
                per_head.visit_args(visitor);
            }
            let (part, inner) = node.inside();
            if let Some(part) = part {
                part.visit_args(visitor);
            }
            inner.iter().for_each(|variant| variant.visit_args(visitor));
        }
    }
}

/// The part of a number, counted as [`Variant::parts`] does; `number` goes down by the parts passed.
fn nth<'v>(nodes: &'v mut [Node], number: &mut usize) -> Option<&'v mut Box<dyn ErasedVariant>> {
    for node in nodes {
        let (part, inner) = node.inside_mut();
        match part {
            Some(part) if *number == 0 => return Some(part),
            Some(_) => *number -= 1,
            None => {}
        }
        for variant in inner {
            if let Some(part) = nth(&mut variant.nodes, number) {
                return Some(part);
            }
        }
    }
    None
}

impl From<Node> for Variant {
    fn from(node: Node) -> Self {
        Variant::of(vec![node])
    }
}

impl<V: Described> From<V> for Variant {
    fn from(variant: V) -> Self {
        Variant::full().push(Box::new(variant))
    }
}

impl FromStr for Variant {
    type Err = ExprError;
    fn from_str(text: &str) -> Result<Self, ExprError> {
        Variant::parse(text)
    }
}

/// The canonical expression.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{node}", if i == 0 { "" } else { " + " })?;
        }
        f.write_str(if self.nodes.is_empty() { "full" } else { "" })
    }
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variant({self})")
    }
}
