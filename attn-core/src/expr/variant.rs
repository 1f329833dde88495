//! Composing, checking and binding variants.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use super::branches;
use super::compose::{Tested, check};
use super::coordinates::{self, PartRead};
use super::error::ExprError;
use super::owner::owners;
use super::parse;
use super::spec::VariantSpec;
use super::structure::{self, StructureError};
use super::tree::{Node, Variant};
use crate::lang::params::ArgVisitor;
use crate::lang::{
    AttentionVariant, BindError, ComposeError, Described, Dims, Hook, KvFormats, Normalizer, ParamError, ParamValue,
};
use crate::registry::Registry;
use crate::spec::{HeadDimVo, HeadsError, KvStored};

impl Variant {
    /// Parses an expression over the variants of the program. The grammar is in [`expr`](crate::expr).
    ///
    /// # Errors
    /// Each names the column, what was found there, and what may stand there.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        Self::parse_with(text, &*Registry::global()?)
    }

    /// Parses an expression over the variants of a registry.
    ///
    /// # Errors
    /// The errors of [`Variant::parse`].
    pub fn parse_with(text: &str, registry: &Registry) -> Result<Self, ExprError> {
        parse::parse(text, registry)
    }

    /// Parses an expression with parameters beside it, by the paths of [`Variant::set`]: also those that have no
    /// default. A parameter that is in both has the value that is beside the text.
    ///
    /// ```
    /// # use attn_core::{lang::ParamValue, Variant};
    /// # fn example() -> Result<(), attn_core::ExprError> {
    /// let cap = ("soft_cap.cap".to_owned(), ParamValue::Int(30));
    /// let variant = Variant::parse_with_values("causal + soft_cap", [cap])?;
    /// assert_eq!(variant.to_string(), "causal + soft_cap(cap=30)");
    /// let twice = [("cap".to_owned(), ParamValue::Int(30)), ("soft_cap.cap".to_owned(), ParamValue::Int(50))];
    /// assert!(Variant::parse_with_values("causal + soft_cap", twice).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A parameter beside the text twice, by name and by path; the errors of [`Variant::parse`] and [`Variant::set`].
    pub fn parse_with_values(
        text: &str,
        values: impl IntoIterator<Item = (String, ParamValue)>,
    ) -> Result<Self, ExprError> {
        let values: Vec<(String, ParamValue)> = values.into_iter().collect();
        let mut variant = parse::parse_with_values(text, &*Registry::global()?, &values)?;
        let mut set = HashSet::new();
        for (path, value) in values {
            let (part, field) = variant.field_at(&path)?;
            if !set.insert((part, field)) {
                let variant = owners(&variant).get(part).map_or_else(String::new, |owner| owner.name.to_owned());
                let source = Box::new(ParamError::Twice { name: field.to_owned() });
                return Err(ExprError::Param { column: None, variant, source });
            }
            variant.set_in(part, field, value)?;
        }
        Ok(variant)
    }

    /// `self`, then the parts of `other`.
    ///
    /// # Errors
    /// The parts do not compose: both change the normaliser, or one has a sink that the other's normaliser cannot take,
    /// for example.
    pub fn and(self, other: impl Into<Variant>) -> Result<Self, ComposeError> {
        let both = self.append(other.into());
        check::check(&both).map(|()| both)
    }

    /// Checks that the parts compose.
    pub(super) fn checked(self) -> Result<Self, ExprError> {
        check::check(&self)?;
        Ok(self)
    }

    /// Whether the composition runs the hook. Parts under `or` and `not` only mask; keys and values that are stored
    /// transformed are not transformed again.
    #[must_use]
    pub fn has(&self, hook: Hook) -> bool {
        !self.kv.is_stored(hook) && self.nodes.iter().any(|node| node.has(hook))
    }

    /// The coordinates that hooks read which run: parts under `or` and `not` only mask, and keys and values that are
    /// stored transformed are not transformed again.
    #[must_use]
    pub fn coordinate_reads(&self) -> Vec<PartRead> {
        coordinates::reads(self)
    }

    /// The part and the coordinate (`batch`, `kv_token` or `kv_len`) by which keys or values are transformed
    /// differently for each request. `None` where the transform of keys that requests share is the same for all of
    /// them.
    #[must_use]
    pub fn per_request_kv_coordinate(&self) -> Option<(&'static str, &'static str)> {
        if !self.has(Hook::KeyTransform) && !self.has(Hook::ValueTransform) {
            return None;
        }
        let of_keys = |hook| matches!(hook, Hook::KeyTransform | Hook::ValueTransform | Hook::RemapKvPos);
        let of_a_request = |coordinate| matches!(coordinate, "batch" | "kv_token" | "kv_len");
        self.coordinate_reads().into_iter().find_map(|PartRead { part, read, .. }| {
            (of_keys(read.hook) && of_a_request(read.coordinate)).then_some((part, read.coordinate))
        })
    }

    /// The normaliser of the part that replaces it, else softmax.
    #[must_use]
    pub fn normalizer(&self) -> Normalizer {
        let mut all = self.nodes.iter().map(Node::normalizer);
        all.find(|n| *n != Normalizer::Softmax).unwrap_or(Normalizer::Softmax)
    }

    /// Variants with disjoint keys that together are this one: each has a branch, the parts outside of the union, and a
    /// mask that leaves out the keys of earlier branches. Their partial states (O, LSE) of a row merge into the state
    /// of the whole. A variant without a union gives itself.
    #[must_use]
    pub fn branches(&self) -> Vec<Variant> {
        branches::branches(self)
    }

    /// Checks that `other` has the same parts in the same places, so that one kernel runs both. Values of parameters
    /// may differ.
    ///
    /// # Errors
    ///
    /// [`StructureError`] names the first part that differs.
    pub fn check_structure(&self, other: &Variant) -> Result<(), StructureError> {
        structure::check(self, other)
    }

    /// Whether every batch has the same visible keys under `other`, which has the same structure: the parts that mask,
    /// list or remap keys have equal parameters.
    #[must_use]
    pub fn same_visibility(&self, other: &Variant) -> bool {
        structure::same_visibility(self, other)
    }

    /// Refuses a value transform that no append applies and no kernel: values that are the first elements of stored
    /// keys are stored as keys are.
    ///
    /// # Errors
    ///
    /// [`HeadsError::TransformedInKeys`].
    pub fn check_stored(&self, stored: KvStored, head_dim_vo: HeadDimVo) -> Result<(), HeadsError> {
        let of_values = || self.parts().find(|part| part.desc().has(Hook::ValueTransform));
        match of_values().filter(|_| stored == KvStored::Transformed && head_dim_vo.shares_keys()) {
            Some(part) => Err(HeadsError::TransformedInKeys { variant: part.desc().name }),
            None => Ok(()),
        }
    }

    /// A copy bound to these dimensions: conditions are checked, unset tensors are filled from their defaults, shapes
    /// are checked as far as `dims` knows them. Planning binds again when the batch is known.
    ///
    /// # Errors
    /// The parts do not compose, or a parameter is wrong: the error names part, parameter, value and what is allowed.
    pub fn bind(&self, dims: &Dims) -> Result<Variant, BindError> {
        check::check(self)?;
        let mut bound = self.clone();
        bound.bind_nodes(dims)?;
        bound.kv.formats.as_mut().map_or(Ok(()), |formats| formats.bind(dims))?;
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

    /// Visits the parameters of the parts in order, as kernel arguments; the tables of a `per_head` come before its
    /// branches, and the formats of keys and values after all parts.
    pub fn visit_args(&self, visitor: &mut dyn ArgVisitor) {
        self.visit_nodes(visitor);
        self.kv.formats.iter().flat_map(KvFormats::owners).for_each(|(_, format)| format.visit_args(visitor));
    }

    fn visit_nodes(&self, visitor: &mut dyn ArgVisitor) {
        for node in &self.nodes {
            if let Node::PerHead(per_head) = node {
                per_head.visit_args(visitor);
            }
            let (part, inner) = node.inside();
            if let Some(part) = part {
                part.visit_args(visitor);
            }
            inner.iter().for_each(|variant| variant.visit_nodes(visitor));
        }
    }
}

impl From<Node> for Variant {
    fn from(node: Node) -> Self {
        Variant::of(vec![node])
    }
}

impl<V: AttentionVariant + Described> From<V> for Variant {
    fn from(variant: V) -> Self {
        Variant::full().push(Box::new(variant))
    }
}

impl From<&Variant> for Variant {
    fn from(variant: &Variant) -> Variant {
        variant.clone()
    }
}

impl TryFrom<VariantSpec> for Variant {
    type Error = ExprError;
    fn try_from(spec: VariantSpec) -> Result<Self, ExprError> {
        spec.build()
    }
}

impl Tested for Variant {
    fn into_variant(self) -> Variant {
        self
    }
}

impl FromStr for Variant {
    type Err = ExprError;
    fn from_str(text: &str) -> Result<Self, ExprError> {
        Variant::parse(text)
    }
}

/// The canonical expression; after `over`, the formats of keys and values, which are no part of an expression.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, node) in self.nodes.iter().enumerate() {
            write!(f, "{}{node}", if i == 0 { "" } else { " + " })?;
        }
        f.write_str(if self.nodes.is_empty() { "full" } else { "" })?;
        self.kv.formats.as_ref().map_or(Ok(()), |formats| write!(f, " over {formats}"))
    }
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variant({self})")
    }
}
