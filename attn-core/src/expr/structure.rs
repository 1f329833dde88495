//! Comparing variants of one structure, which differ only in the values of their parameters.

use super::tree::{Node, Variant};
use crate::lang::{ErasedVariant, Hook};

/// A variant with another structure: other parts, or parts in other places.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the parameters are of another variant: `{got}` stands where the attention has `{want}` (part {part}); only \
     values of parameters may differ"
)]
pub struct StructureError {
    /// Number of the part, counted as [`Variant::parts`] does.
    pub part: usize,
    /// The part that the attention has.
    pub want: String,
    /// The part that was given.
    pub got: String,
}

/// Hooks that decide which keys a row sees.
const VISIBILITY: [Hook; 8] = [
    Hook::LogitsMask,
    Hook::KvRange,
    Hook::KvListLen,
    Hook::KvListBlock,
    Hook::KvListBlockSize,
    Hook::KvListQueries,
    Hook::RemapQoPos,
    Hook::RemapKvPos,
];

/// What [`Variant::check_structure`] checks.
pub(super) fn check(want: &Variant, got: &Variant) -> Result<(), StructureError> {
    same_nodes(want, got, &mut 0)?;
    let differs = |want: String, got: String| Err(StructureError { part: 0, want, got });
    if want.kv_list_sizes() != got.kv_list_sizes() {
        let sizes = |variant: &Variant| match variant.kv_list_sizes() {
            Some((block, queries)) => format!("lists of blocks of {block} keys, for {queries} queries each"),
            None => "no lists".to_owned(),
        };
        return differs(sizes(want), sizes(got));
    }
    if want.stored() != got.stored() {
        return differs(format!("keys stored {:?}", want.stored()), format!("{:?}", got.stored()));
    }
    if !want.kv.has_formats_of(&got.kv) {
        let text = |variant: &Variant| {
            variant.kv_formats().map_or_else(|| "keys of numbers".to_owned(), |formats| format!("keys over {formats}"))
        };
        return differs(text(want), text(got));
    }
    Ok(())
}

/// What [`Variant::same_visibility`] tells.
pub(super) fn same_visibility(a: &Variant, b: &Variant) -> bool {
    a.nodes().len() == b.nodes().len() && a.nodes().iter().zip(b.nodes()).all(|(a, b)| same_visibility_of_nodes(a, b))
}

fn same_nodes(want: &Variant, got: &Variant, part: &mut usize) -> Result<(), StructureError> {
    let name = |node: Option<&Node>| node.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    for i in 0..want.nodes().len().max(got.nodes().len()) {
        let (want, got) = (want.nodes().get(i), got.nodes().get(i));
        let (Some(a), Some(b)) = (want, got) else {
            return Err(StructureError { part: *part, want: name(want), got: name(got) });
        };
        let ((map, inner), (other_map, other_inner)) = (a.inside(), b.inside());
        let same_part = match (map, other_map) {
            (Some(a), Some(b)) => std::ptr::eq(a.desc(), b.desc()),
            (a, b) => a.is_none() && b.is_none(),
        };
        if std::mem::discriminant(a) != std::mem::discriminant(b) || !same_part || inner.len() != other_inner.len() {
            return Err(StructureError { part: *part, want: name(want), got: name(got) });
        }
        *part += usize::from(map.is_some());
        inner.iter().zip(other_inner).try_for_each(|(a, b)| same_nodes(a, b, part))?;
    }
    Ok(())
}

fn same_visibility_of_nodes(a: &Node, b: &Node) -> bool {
    let ((part, inner), (other_part, other_inner)) = (a.inside(), b.inside());
    let chosen = match (a, b) {
        (Node::PerHead(a), Node::PerHead(b)) => {
            a.heads() == b.heads() || !a.branches().iter().any(|branch| branch.parts().any(affects_visibility))
        }
        _ => true,
    };
    let same = match (part, other_part) {
        (Some(a), Some(b)) => {
            std::ptr::eq(a.desc(), b.desc()) && (!affects_visibility(a) || a.to_values() == b.to_values())
        }
        (a, b) => a.is_none() && b.is_none(),
    };
    chosen
        && same
        && inner.len() == other_inner.len()
        && inner.iter().zip(other_inner).all(|(a, b)| same_visibility(a, b))
}

fn affects_visibility(part: &dyn ErasedVariant) -> bool {
    VISIBILITY.iter().any(|&hook| part.desc().has(hook))
}
