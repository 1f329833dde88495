//! Variants that differ in the values of their parameters alone, and those of them that see the same keys.

use super::{node::Node, variant::Variant};
use crate::{
    lang::{ErasedVariant, Hook},
    plan::LayerError,
};

/// Hooks that say which keys a row sees.
const SIGHT: [Hook; 8] = [
    Hook::LogitsMask,
    Hook::KvRange,
    Hook::KvListLen,
    Hook::KvListBlock,
    Hook::KvListBlockSize,
    Hook::KvListQueries,
    Hook::RemapQoPos,
    Hook::RemapKvPos,
];

impl Variant {
    /// Whether `other` has the same parts in the same places, so that one kernel runs both: only the values of parameters may be others.
    ///
    /// # Errors
    ///
    /// [`LayerError::Structure`] names the first part that is another.
    pub fn check_structure(&self, other: &Variant) -> Result<(), LayerError> {
        same_nodes(self, other, &mut 0)?;
        let differs = |want: String, got: String| Err(LayerError::Structure { part: 0, want, got });
        if self.kv_list_sizes() != other.kv_list_sizes() {
            let sizes = |variant: &Variant| match variant.kv_list_sizes() {
                Some((block, queries)) => format!("lists of blocks of {block} keys, for {queries} queries each"),
                None => "no lists".to_owned(),
            };
            return differs(sizes(self), sizes(other));
        }
        if self.stored() != other.stored() {
            return differs(format!("keys stored {:?}", self.stored()), format!("{:?}", other.stored()));
        }
        Ok(())
    }

    /// Whether rows see the same keys under `other`, which has the same structure, whatever the batch: the parameters of parts that mask, list or remap keys
    /// are the same.
    #[must_use]
    pub fn sees_as(&self, other: &Variant) -> bool {
        self.nodes().len() == other.nodes().len() && self.nodes().iter().zip(other.nodes()).all(|(a, b)| sees_as(a, b))
    }
}

fn same_nodes(want: &Variant, got: &Variant, part: &mut usize) -> Result<(), LayerError> {
    let name = |node: Option<&Node>| node.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    for i in 0..want.nodes().len().max(got.nodes().len()) {
        let (want, got) = (want.nodes().get(i), got.nodes().get(i));
        let (Some(a), Some(b)) = (want, got) else {
            return Err(LayerError::Structure { part: *part, want: name(want), got: name(got) });
        };
        let ((map, inner), (other_map, other_inner)) = (a.inside(), b.inside());
        let same_part = match (map, other_map) {
            (Some(a), Some(b)) => std::ptr::eq(a.desc(), b.desc()),
            (a, b) => a.is_none() && b.is_none(),
        };
        if std::mem::discriminant(a) != std::mem::discriminant(b) || !same_part || inner.len() != other_inner.len() {
            return Err(LayerError::Structure { part: *part, want: name(want), got: name(got) });
        }
        *part += usize::from(map.is_some());
        inner.iter().zip(other_inner).try_for_each(|(a, b)| same_nodes(a, b, part))?;
    }
    Ok(())
}

fn sees_as(a: &Node, b: &Node) -> bool {
    let ((part, inner), (other_part, other_inner)) = (a.inside(), b.inside());
    let chosen = match (a, b) {
        (Node::PerHead(a), Node::PerHead(b)) => {
            a.heads() == b.heads() || !a.branches().iter().any(|branch| branch.parts().any(has_sight))
        }
        _ => true,
    };
    let same = match (part, other_part) {
        (Some(a), Some(b)) => std::ptr::eq(a.desc(), b.desc()) && (!has_sight(a) || a.to_values() == b.to_values()),
        (a, b) => a.is_none() && b.is_none(),
    };
    chosen && same && inner.len() == other_inner.len() && inner.iter().zip(other_inner).all(|(a, b)| a.sees_as(b))
}

fn has_sight(part: &dyn ErasedVariant) -> bool {
    SIGHT.iter().any(|&hook| part.desc().has(hook))
}
