//! The serde form of a variant: an expression, or a list of parts and combinators.

use serde::{Deserialize, Serialize};

use super::budget::PartsLeft;
use super::error::ExprError;
use super::parse::{self, MAX_DEPTH};
use super::tree::Node;
use super::tree::Variant;
use crate::lang::{ComposeError, ParamValues};
use crate::registry::Registry;

/// A variant in a configuration file: `"causal + soft_cap(cap=30)"`, or
/// `[{"name": "causal"}, {"name": "soft_cap", "params": {"cap": 30}}]`.
///
/// Combinators: `{"or": [a, b]}`, `{"not": a}`, `{"union": [a, b]}`, `{"remap": {"map": part, "inner": a}}`,
/// `{"per_head": {"heads": [0, 1], "branches": [a, b]}}`, where each operand is again an expression, a list, or one
/// element.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum VariantSpec {
    /// The expression.
    Text(String),
    /// Parts and combinators in order.
    Parts(Vec<NodeSpec>),
}

/// One part or combinator.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeSpec {
    /// A part by name.
    Part(PartSpec),
    /// `or(..)`.
    Or(Vec<VariantSpec>),
    /// `not(..)`.
    Not(Box<VariantSpec>),
    /// `remap(..)`.
    Remap(Box<RemapSpec>),
    /// `per_head(..)`.
    PerHead(PerHeadSpec),
    /// `union(..)`.
    Union(Vec<VariantSpec>),
}

/// One part by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartSpec {
    /// Registered name.
    pub name: String,
    /// Parameters by name.
    #[serde(default, skip_serializing_if = "ParamValues::is_empty")]
    pub params: ParamValues,
}

/// The operands of `remap`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemapSpec {
    /// The part that rewrites positions.
    pub map: PartSpec,
    /// The variant that sees the rewritten positions.
    pub inner: VariantSpec,
}

/// The operands of `per_head`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerHeadSpec {
    /// The number of the branch, from 0, of each query head.
    pub heads: Vec<i32>,
    /// The branches.
    pub branches: Vec<VariantSpec>,
}

impl VariantSpec {
    /// Builds the variant from the variants of the program.
    ///
    /// # Errors
    /// The errors of [`Variant::parse`]; for a list, with the path to the faulty element.
    pub fn build(&self) -> Result<Variant, ExprError> {
        self.build_with(&*Registry::global()?)
    }

    /// Builds the variant from the variants of a registry.
    ///
    /// # Errors
    /// The errors of [`Self::build`].
    pub fn build_with(&self, registry: &Registry) -> Result<Variant, ExprError> {
        self.read(registry, 0, &PartsLeft::new())?.checked()
    }

    fn read(&self, registry: &Registry, depth: usize, left: &PartsLeft) -> Result<Variant, ExprError> {
        if depth > MAX_DEPTH {
            return Err(ExprError::Depth { most: MAX_DEPTH });
        }
        match self {
            VariantSpec::Text(text) => parse::read(text, registry, depth, left),
            VariantSpec::Parts(nodes) => nodes.iter().enumerate().try_fold(Variant::full(), |variant, (i, node)| {
                let node = node.read(registry, depth, left).map_err(|error| error.inside(&format!("[{i}]")))?;
                Ok(variant.append(node))
            }),
        }
    }
}

impl NodeSpec {
    fn read(&self, registry: &Registry, depth: usize, left: &PartsLeft) -> Result<Variant, ExprError> {
        // operands of a combinator, with the path to each
        let operands = |list: &[VariantSpec], path: &'static str, least: usize, takes: &'static str| {
            if list.len() < least {
                let combinator = path.split('.').nth(1).unwrap_or_default();
                return Err(ExprError::Operands { combinator, takes, got: list.len() });
            }
            let read = |(i, operand): (usize, &VariantSpec)| {
                operand.read(registry, depth + 1, left).map_err(|error| error.inside(&format!("{path}[{i}]")))
            };
            list.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()
        };
        let node = match self {
            NodeSpec::Part(part) => {
                left.take()?;
                let part = parse::part_by_name(&part.name, &part.params, registry)?;
                return Ok(part.into_iter().fold(Variant::full(), Variant::push));
            }
            NodeSpec::Or(list) => Node::or(operands(list, ".or", 2, "two masks or more")?),
            NodeSpec::Union(list) => Node::union(operands(list, ".union", 2, "two branches or more")?),
            NodeSpec::Not(inner) => Node::Not(inner.read(registry, depth + 1, left).map_err(|e| e.inside(".not"))?),
            NodeSpec::Remap(remap) => {
                left.take()?;
                let map = parse::part_by_name(&remap.map.name, &remap.map.params, registry)
                    .and_then(|map| map.ok_or_else(|| ComposeError::NotAMap { part: remap.map.name.clone() }.into()))
                    .map_err(|error| error.inside(".remap.map"))?;
                let inner =
                    remap.inner.read(registry, depth + 1, left).map_err(|error| error.inside(".remap.inner"))?;
                Node::Remap { map, inner }
            }
            NodeSpec::PerHead(spec) => {
                let branches = operands(&spec.branches, ".per_head.branches", 1, "one branch or more")?;
                Node::per_head(spec.heads.clone(), branches)
            }
        };
        Ok(node.into())
    }
}

impl From<&Variant> for VariantSpec {
    fn from(variant: &Variant) -> Self {
        VariantSpec::Parts(variant.nodes().iter().map(NodeSpec::from).collect())
    }
}

impl From<&Node> for NodeSpec {
    fn from(node: &Node) -> Self {
        let all = |variants: &[Variant]| variants.iter().map(VariantSpec::from).collect();
        let part = |part: &dyn crate::lang::ErasedVariant| PartSpec {
            name: part.desc().name.to_owned(),
            params: part.to_values(),
        };
        match node {
            Node::Part(one) => NodeSpec::Part(part(&**one)),
            Node::Or(masks) => NodeSpec::Or(all(masks)),
            Node::Not(mask) | Node::Except(mask) => NodeSpec::Not(Box::new(mask.into())),
            Node::Remap { map, inner } => {
                NodeSpec::Remap(Box::new(RemapSpec { map: part(&**map), inner: inner.into() }))
            }
            Node::PerHead(per_head) => {
                NodeSpec::PerHead(PerHeadSpec { heads: per_head.heads().to_vec(), branches: all(per_head.branches()) })
            }
            Node::Union(branches) => NodeSpec::Union(all(branches)),
        }
    }
}
