//! The coordinates that the hooks of a composed variant read.

use super::tree::{Node, Variant};
use crate::lang::Hook;
use crate::lang::desc::CoordinateRead;

/// A coordinate that a hook of a part reads.
#[derive(Clone, Copy, Debug)]
pub struct PartRead {
    /// The name of the part.
    pub part: &'static str,
    /// The hook and the coordinate.
    pub read: &'static CoordinateRead,
    /// Whether it is a position that `remap` gives, or that the map of a `remap` takes.
    pub remapped: bool,
}

/// The coordinates that hooks of a variant read which run.
pub(super) fn reads(variant: &Variant) -> Vec<PartRead> {
    let mut reads = Vec::new();
    collect(variant, [false; 2], false, &mut reads);
    reads.retain(|of| !variant.kv.is_stored(of.read.hook));
    reads
}

/// Collects the reads of a variant. `remapped`: whether query and key positions are those of a `remap`.
fn collect(variant: &Variant, remapped: [bool; 2], masks_only: bool, reads: &mut Vec<PartRead>) {
    for node in &variant.nodes {
        let masks_only = masks_only || matches!(node, Node::Or(_) | Node::Not(_) | Node::Except(_));
        let (part, inner) = node.inside();
        let mut inside = remapped;
        if let Some(desc) = part.map(|part| part.desc()) {
            let of_read = |read: &CoordinateRead| match (read.hook, read.coordinate) {
                (Hook::RemapQoPos | Hook::RemapKvPos, "qo_pos" | "kv_pos") => true,
                (_, "qo_pos") => remapped[0],
                (_, "kv_pos") => remapped[1],
                _ => false,
            };
            let run = desc.coordinates.iter().filter(|read| !masks_only || read.hook == Hook::LogitsMask);
            reads.extend(run.map(|read| PartRead { part: desc.name, read, remapped: of_read(read) }));
            if let Node::Remap { .. } = node {
                inside[0] |= desc.has(Hook::RemapQoPos);
                inside[1] |= desc.has(Hook::RemapKvPos);
            }
        }
        inner.iter().for_each(|variant| collect(variant, inside, masks_only, reads));
    }
}
