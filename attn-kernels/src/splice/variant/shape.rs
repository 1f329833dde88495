//! The shape of a variant: its tree of parts and combinators, on which the CUDA text and the layout of arguments
//! depend.

use std::fmt;

use attn_core::expr::{Node, Variant};
use attn_core::lang::{FieldType, Hook, Normalizer, VariantDesc};
use attn_core::spec::KvStored;

/// A part, or a combinator of shapes. Each is a struct in the text, with its operands as members.
#[derive(Clone, Debug)]
pub(super) enum Shape<'d> {
    Part(&'d VariantDesc),
    /// All operands, in order: `a + b`.
    All(Vec<Shape<'d>>),
    /// As `All`, for a cache of transformed keys and values, over which key and value transforms do not run.
    Stored(Vec<Shape<'d>>),
    Or(Vec<Shape<'d>>),
    Not(Box<Shape<'d>>),
    /// The map, and the operand that sees the mapped positions.
    Remap(&'d VariantDesc, Box<Shape<'d>>),
    PerHead(Vec<Shape<'d>>),
}

impl Shape<'static> {
    /// The shape of a whole variant.
    pub(super) fn of(variant: &Variant) -> Self {
        let nodes: Vec<_> = variant.nodes().iter().map(Shape::of_node).collect();
        let stored = variant.stored() == KvStored::Transformed && nodes.iter().any(Shape::rewrites_keys);
        if stored { Shape::Stored(nodes) } else { Shape::All(nodes) }
    }

    /// The shape of an operand; a single node has no combinator around it.
    pub(super) fn operand(variant: &Variant) -> Self {
        match variant.nodes() {
            [only] => Shape::of_node(only),
            _ => Shape::of(variant),
        }
    }

    /// The shape of one node.
    pub(super) fn of_node(node: &Node) -> Self {
        let all = |variants: &[Variant]| variants.iter().map(Shape::operand).collect();
        match node {
            Node::Part(part) => Shape::Part(part.desc()),
            Node::Or(masks) => Shape::Or(all(masks)),
            Node::Not(mask) | Node::Except(mask) => Shape::Not(Box::new(Shape::operand(mask))),
            Node::Remap { map, inner } => Shape::Remap(map.desc(), Box::new(Shape::operand(inner))),
            Node::PerHead(per_head) => Shape::PerHead(all(per_head.branches())),
            // kernels run one branch at a time; the union as a whole is the `or` of its branches' masks
            Node::Union(branches) => Shape::Or(all(branches)),
            other => unreachable!("no shape of {other:?}"),
        }
    }
}

impl<'d> Shape<'d> {
    /// The part of this node, if it has one, and the operands, in source order.
    pub(super) fn inside(&self) -> (Option<&'d VariantDesc>, &[Shape<'d>]) {
        match self {
            Shape::Part(part) => (Some(part), &[]),
            Shape::All(inner) | Shape::Stored(inner) | Shape::Or(inner) | Shape::PerHead(inner) => (None, inner),
            Shape::Not(inner) => (None, std::slice::from_ref(inner)),
            Shape::Remap(map, inner) => (Some(map), std::slice::from_ref(inner)),
        }
    }

    /// Whether the struct has this hook.
    pub(super) fn has(&self, hook: Hook) -> bool {
        match self {
            Shape::Or(_) | Shape::Not(_) => hook == Hook::LogitsMask,
            Shape::Stored(_) if matches!(hook, Hook::KeyTransform | Hook::ValueTransform) => false,
            // a `kv_range` over mapped positions says nothing about the positions before the map
            Shape::Remap(map, _) if hook == Hook::KvRange => map.has(hook),
            _ => self.any(|shape| shape.has(hook), |part| part.has(hook)),
        }
    }

    /// Whether the masks give a tile class.
    pub(super) fn has_class(&self) -> bool {
        self.any(Shape::has_class, part_has_class)
    }

    /// Whether the mask provably leaves an interval of keys for each row.
    pub(super) fn has_bounds(&self) -> bool {
        match self {
            Shape::Part(part) => !part.has(Hook::LogitsMask) || !part.mask.bounds.is_empty(),
            Shape::All(inner) | Shape::Stored(inner) | Shape::PerHead(inner) => inner.iter().all(Shape::has_bounds),
            Shape::Remap(_, _) => !self.has(Hook::LogitsMask),
            Shape::Or(_) | Shape::Not(_) => false,
        }
    }

    /// Whether logits transforms only add a term.
    pub(super) fn adds_to_logits(&self) -> bool {
        let adds = |part: &VariantDesc| !part.has(Hook::LogitsTransform) || !part.bias.is_empty();
        matches!(self, Shape::Or(_) | Shape::Not(_)) || self.all(Shape::adds_to_logits, adds)
    }

    /// Whether the term that is added to logits is affine in the key position.
    pub(super) fn is_affine(&self) -> bool {
        let affine = |part: &VariantDesc| !part.has(Hook::LogitsTransform) || !part.slope.is_empty();
        match self {
            // mapped positions, or another term for each head
            Shape::Remap(..) | Shape::PerHead(_) => !self.has(Hook::LogitsTransform),
            Shape::Or(_) | Shape::Not(_) => true,
            _ => self.all(Shape::is_affine, affine),
        }
    }

    /// Whether the only logits transform adds rows of a parameter tensor.
    pub(super) fn adds_rows(&self) -> bool {
        match self {
            Shape::Part(part) => !part.bias_row.is_empty(),
            Shape::All(inner) | Shape::Stored(inner) => only_transform(inner).is_some_and(|(_, only)| only.adds_rows()),
            // mapped positions, or another tensor for each head
            Shape::Remap(..) | Shape::PerHead(_) | Shape::Or(_) | Shape::Not(_) => false,
        }
    }

    /// Whether transformed logits are bounded: the last transform has a bound for all inputs.
    pub(super) fn is_bounded(&self) -> bool {
        match self {
            Shape::Part(part) => !part.bound.is_empty(),
            Shape::PerHead(inner) => inner.iter().all(Shape::is_bounded),
            Shape::Remap(map, inner) if !inner.has(Hook::LogitsTransform) => !map.bound.is_empty(),
            Shape::Or(_) | Shape::Not(_) => false,
            _ => last_transform(self.inside().1).is_some_and(|(_, last)| last.is_bounded()),
        }
    }

    /// Whether a logits transform calls functions of the special function unit (MUFU).
    pub(super) fn transform_is_special(&self) -> bool {
        const SPECIAL: [&str; 7] = ["tanh(", "exp(", "exp2(", "sigmoid(", "log(", "sqrt(", "recip("];
        let calls = |part: &VariantDesc| {
            let transform = part.hooks.iter().find(|text| text.hook == Hook::LogitsTransform);
            transform.is_some_and(|text| SPECIAL.iter().any(|name| text.cuda.contains(name)))
        };
        !matches!(self, Shape::Or(_) | Shape::Not(_)) && self.any(Shape::transform_is_special, calls)
    }

    /// Whether the tile class reads ranges of parameter tensors.
    pub(super) fn asks_tables(&self) -> bool {
        let asks = |part: &VariantDesc| !part.mask.tables.is_empty();
        self.any(Shape::asks_tables, asks)
    }

    /// Whether a hook stores to a tensor. Masks do not.
    pub(super) fn stores(&self) -> bool {
        let stores = |part: &VariantDesc| part.fields.iter().any(|field| matches!(field.ty, FieldType::Out { .. }));
        !matches!(self, Shape::Or(_) | Shape::Not(_)) && self.any(Shape::stores, stores)
    }

    /// The part that sets the normaliser; with several branches the first.
    pub(super) fn normalizing(&self) -> Option<&'d VariantDesc> {
        match self {
            Shape::Or(_) | Shape::Not(_) => None,
            _ => {
                let (part, inner) = self.inside();
                let part = part.filter(|part| part.normalizer != Normalizer::Softmax);
                part.or_else(|| inner.iter().find_map(Shape::normalizing))
            }
        }
    }

    /// Whether keys or values are transformed; then `per_head` has a table of branches by KV head.
    pub(super) fn rewrites_keys(&self) -> bool {
        self.has(Hook::KeyTransform) || self.has(Hook::ValueTransform)
    }

    /// The parts in source order.
    pub(super) fn parts(&self) -> Vec<&'d VariantDesc> {
        let (part, inner) = self.inside();
        part.into_iter().chain(inner.iter().flat_map(Shape::parts)).collect()
    }

    fn all(&self, shape: impl Fn(&Shape<'d>) -> bool, part: impl Fn(&VariantDesc) -> bool) -> bool {
        let (own, inner) = self.inside();
        own.is_none_or(part) && inner.iter().all(shape)
    }

    fn any(&self, shape: impl Fn(&Shape<'d>) -> bool, part: impl Fn(&VariantDesc) -> bool) -> bool {
        let (own, inner) = self.inside();
        own.is_some_and(part) || inner.iter().any(shape)
    }
}

/// The last shape with a logits transform, and its number.
pub(super) fn last_transform<'s, 'd>(shapes: &'s [Shape<'d>]) -> Option<(usize, &'s Shape<'d>)> {
    shapes.iter().enumerate().rfind(|(_, shape)| shape.has(Hook::LogitsTransform))
}

/// The only shape with a logits transform, and its number.
pub(super) fn only_transform<'s, 'd>(shapes: &'s [Shape<'d>]) -> Option<(usize, &'s Shape<'d>)> {
    let first = shapes.iter().position(|shape| shape.has(Hook::LogitsTransform))?;
    last_transform(shapes).filter(|(last, _)| *last == first)
}

/// Whether the part has a mask over tiles or a `kv_range`.
pub(super) fn part_has_class(part: &VariantDesc) -> bool {
    !part.mask.over.is_empty() || part.has(Hook::KvRange)
}

/// The expression without parameters.
impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, between) = match self {
            Shape::Part(part) => return f.write_str(part.name),
            Shape::All(inner) if inner.is_empty() => return f.write_str("full"),
            Shape::All(_) | Shape::Stored(_) => ("", " + "),
            Shape::Or(_) => ("or(", ", "),
            Shape::Not(_) => ("not(", ", "),
            Shape::Remap(map, inner) => return write!(f, "remap({}, {inner})", map.name),
            Shape::PerHead(_) => ("per_head(", ", "),
        };
        f.write_str(open)?;
        for (i, inner) in self.inside().1.iter().enumerate() {
            write!(f, "{}{inner}", if i == 0 { "" } else { between })?;
        }
        f.write_str(match self {
            Shape::Stored(_) => " over transformed keys",
            _ if open.is_empty() => "",
            _ => ")",
        })
    }
}
