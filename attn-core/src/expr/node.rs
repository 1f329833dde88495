//! Nodes: constructors, which hooks they have, and how they are written.

use std::fmt;

use super::tree::{Node, PerHeadNode, Variant};
use crate::lang::{ErasedVariant, Hook, Normalizer};

impl Node {
    /// `or` of masks. Operands that are an `or` themselves are flattened into it.
    #[must_use]
    pub fn or(masks: Vec<Variant>) -> Node {
        Node::Or(flat(masks, |node| match node {
            Node::Or(inner) => Ok(inner),
            other => Err(other),
        }))
    }

    /// `union` of branches. Operands that are a `union` themselves are flattened into it.
    #[must_use]
    pub fn union(branches: Vec<Variant>) -> Node {
        Node::Union(flat(branches, |node| match node {
            Node::Union(inner) => Ok(inner),
            other => Err(other),
        }))
    }

    /// `per_head`: `heads[h]` is the number of the branch, from 0, of query head `h`. [`Variant::and`] and
    /// [`Variant::bind`] check both arguments.
    #[must_use]
    pub fn per_head(heads: impl Into<Vec<i32>>, branches: Vec<Variant>) -> Node {
        Node::PerHead(PerHeadNode::new(heads.into(), branches))
    }

    /// The part, if it is one.
    #[must_use]
    pub fn as_part(&self) -> Option<&dyn ErasedVariant> {
        match self {
            Node::Part(part) => Some(&**part),
            _ => None,
        }
    }

    /// The part of this node (for `remap`, the map) and the variants inside, as written.
    pub(super) fn inside(&self) -> (Option<&dyn ErasedVariant>, &[Variant]) {
        match self {
            Node::Part(part) => (Some(&**part), &[]),
            Node::Or(inner) | Node::Union(inner) => (None, inner),
            Node::Not(inner) | Node::Except(inner) => (None, std::slice::from_ref(inner)),
            Node::Remap { map, inner } => (Some(&**map), std::slice::from_ref(inner)),
            Node::PerHead(per_head) => (None, per_head.branches()),
        }
    }

    pub(super) fn inside_mut(&mut self) -> (Option<&mut Box<dyn ErasedVariant>>, &mut [Variant]) {
        match self {
            Node::Part(part) => (Some(part), &mut []),
            Node::Or(inner) | Node::Union(inner) => (None, inner),
            Node::Not(inner) | Node::Except(inner) => (None, std::slice::from_mut(inner)),
            Node::Remap { map, inner } => (Some(map), std::slice::from_mut(inner)),
            Node::PerHead(per_head) => (None, per_head.branches_mut()),
        }
    }

    /// Whether this node runs the hook. Parts under `or` and `not` only mask.
    #[must_use]
    pub fn has(&self, hook: Hook) -> bool {
        match self {
            Node::Or(_) | Node::Not(_) | Node::Except(_) => hook == Hook::LogitsMask,
            // the mask of the union itself
            Node::Union(_) if hook == Hook::LogitsMask => true,
            _ => {
                let (part, inner) = self.inside();
                part.is_some_and(|part| part.desc().has(hook)) || inner.iter().any(|v| v.has(hook))
            }
        }
    }

    /// The normaliser of this node; softmax unless a part replaces it.
    #[must_use]
    pub fn normalizer(&self) -> Normalizer {
        match self {
            Node::Or(_) | Node::Not(_) | Node::Except(_) => Normalizer::Softmax,
            _ => {
                let (part, inner) = self.inside();
                let all = part.map(|part| part.normalizer()).into_iter().chain(inner.iter().map(Variant::normalizer));
                all.into_iter().find(|n| *n != Normalizer::Softmax).unwrap_or(Normalizer::Softmax)
            }
        }
    }
}

/// Flattens operands that consist of one node of the same kind. `inner` takes such a node apart.
fn flat(operands: Vec<Variant>, inner: fn(Node) -> Result<Vec<Variant>, Node>) -> Vec<Variant> {
    let mut all = Vec::with_capacity(operands.len());
    for operand in operands {
        let mut nodes = operand.into_nodes();
        match nodes.pop() {
            Some(only) if nodes.is_empty() => match inner(only) {
                Ok(operands) => all.extend(operands),
                Err(node) => all.push(node.into()),
            },
            Some(last) => {
                nodes.push(last);
                all.push(Variant::of(nodes));
            }
            None => all.push(Variant::full()),
        }
    }
    all
}

/// Writes the node as an expression.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Part(part) => return write!(f, "{part}"),
            Node::Or(_) => f.write_str("or(")?,
            Node::Not(_) | Node::Except(_) => f.write_str("not(")?,
            Node::Union(_) => f.write_str("union(")?,
            Node::Remap { map, .. } => write!(f, "remap({map}, ")?,
            Node::PerHead(per_head) => write!(f, "per_head(heads={:?}, ", per_head.heads())?,
        }
        for (i, inner) in self.inside().1.iter().enumerate() {
            write!(f, "{}{inner}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Equal nodes have the same combinator over equal variants, or parts with the same descriptor and the same given
/// values.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        let same_heads = match (self, other) {
            (Node::PerHead(a), Node::PerHead(b)) => a.heads() == b.heads(),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        };
        let ((part, inner), (other_part, other_inner)) = (self.inside(), other.inside());
        let same_part = match (part, other_part) {
            (Some(a), Some(b)) => std::ptr::eq(a.desc(), b.desc()) && a.to_values() == b.to_values(),
            (a, b) => a.is_none() && b.is_none(),
        };
        same_heads && same_part && inner == other_inner
    }
}
