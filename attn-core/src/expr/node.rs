//! What a variant is made of.

use std::fmt;

use super::per_head::PerHead;
use super::variant::Variant;
use crate::lang::{ErasedVariant, Hook, Normalizer};

/// One element of a [`Variant`]: a part, or a combinator over variants.
#[derive(Clone)]
#[non_exhaustive]
pub enum Node {
    /// A variant with hooks of its own.
    Part(Box<dyn ErasedVariant>),
    /// Keys that one of these masks attends to.
    Or(Vec<Variant>),
    /// Keys that this mask does not attend to.
    Not(Variant),
    /// Keys that no earlier arm of a union attends to: made by [`Variant::arms`]. Parts may have other hooks here, which do
    /// not run.
    Except(Variant),
    /// `inner`, whose hooks see the positions that `map` makes of the true ones. The mask of `map` applies too, and its other
    /// hooks run before those of `inner`, at the true positions.
    Remap {
        /// The part with `remap_qo_pos` or `remap_kv_pos`.
        map: Box<dyn ErasedVariant>,
        /// What sees other positions.
        inner: Variant,
    },
    /// A branch for each query head.
    PerHead(PerHead),
    /// Disjoint sets of keys, each with transforms of its own, under one softmax. Its hooks run arm by arm: see
    /// [`Variant::arms`]. Asked directly it is a mask: the keys of any arm.
    Union(Vec<Variant>),
}

impl Node {
    /// `or` of masks; an operand that is an `or` itself brings its operands.
    #[must_use]
    pub fn or(masks: Vec<Variant>) -> Node {
        Node::Or(flat(masks, |node| match node {
            Node::Or(inner) => Ok(inner),
            other => Err(other),
        }))
    }

    /// `union` of arms; an operand that is a `union` itself brings its arms.
    #[must_use]
    pub fn union(arms: Vec<Variant>) -> Node {
        Node::Union(flat(arms, |node| match node {
            Node::Union(inner) => Ok(inner),
            other => Err(other),
        }))
    }

    /// `per_head`: `heads` holds the number of a branch, from 0, for each query head. What is wrong with them is found when
    /// the variant is checked: by [`Variant::and`] and [`Variant::bind`].
    #[must_use]
    pub fn per_head(heads: impl Into<Vec<i32>>, branches: Vec<Variant>) -> Node {
        Node::PerHead(PerHead::new(heads.into(), branches))
    }

    /// The part, if it is one.
    #[must_use]
    pub fn as_part(&self) -> Option<&dyn ErasedVariant> {
        match self {
            Node::Part(part) => Some(&**part),
            _ => None,
        }
    }

    /// The part that stands here itself (of a `remap`, the map), and the variants inside, in order of writing.
    pub(super) fn inside(&self) -> (Option<&dyn ErasedVariant>, &[Variant]) {
        match self {
            Node::Part(part) => (Some(&**part), &[]),
            Node::Or(inner) | Node::Union(inner) => (None, inner),
            Node::Not(inner) | Node::Except(inner) => (None, std::slice::from_ref(inner)),
            Node::Remap { map, inner } => (Some(&**map), std::slice::from_ref(inner)),
            Node::PerHead(per_head) => (None, per_head.branches()),
        }
    }

    /// As [`Self::inside`].
    pub(super) fn inside_mut(&mut self) -> (Option<&mut Box<dyn ErasedVariant>>, &mut [Variant]) {
        match self {
            Node::Part(part) => (Some(part), &mut []),
            Node::Or(inner) | Node::Union(inner) => (None, inner),
            Node::Not(inner) | Node::Except(inner) => (None, std::slice::from_mut(inner)),
            Node::Remap { map, inner } => (Some(map), std::slice::from_mut(inner)),
            Node::PerHead(per_head) => (None, per_head.branches_mut()),
        }
    }

    /// Whether a hook of this name does something here. What is under `or` and `not` has no say but in the mask.
    #[must_use]
    pub fn has(&self, hook: Hook) -> bool {
        match self {
            Node::Or(_) | Node::Not(_) | Node::Except(_) => hook == Hook::LogitsMask,
            // a mask at least: that of the arms together
            Node::Union(_) if hook == Hook::LogitsMask => true,
            _ => {
                let (part, inner) = self.inside();
                part.is_some_and(|part| part.desc().has(hook)) || inner.iter().any(|v| v.has(hook))
            }
        }
    }

    /// How weights become an output, as far as this node changes it.
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

/// Operands, those that `inner` takes apart replaced by what is in them.
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

/// As an expression writes it.
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

/// The same combinator over equal variants; parts with the same descriptor and the same values given.
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
