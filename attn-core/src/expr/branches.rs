//! Splits a variant with a union into variants without one.

use super::tree::{Node, Variant};
use crate::lang::Hook;

/// The variants that [`Variant::branches`] gives.
pub(super) fn branches(variant: &Variant) -> Vec<Variant> {
    let union = variant.nodes().iter().position(|node| matches!(node, Node::Union(_)));
    let Some((index, Node::Union(branches))) = union.map(|i| (i, &variant.nodes()[i])) else {
        return vec![variant.clone()];
    };
    let (before, after) = (&variant.nodes()[..index], &variant.nodes()[index + 1..]);
    let masks = |branch: &Variant| {
        let masks = branch.nodes().iter().filter(|node| node.has(Hook::LogitsMask));
        Node::Except(Variant::of(masks.cloned().collect()))
    };
    (0..branches.len())
        .map(|k| {
            let branch = branches[k].nodes().iter().cloned();
            let earlier = branches[..k].iter().map(masks);
            let nodes = before.iter().cloned().chain(branch).chain(earlier).chain(after.iter().cloned());
            Variant::of(nodes.collect()).stored_as(variant)
        })
        .collect()
}
