//! Splits a variant with a union into variants without one.

use super::tree::{Node, Variant};
use crate::lang::Hook;

impl Variant {
    /// Whether the composition has a `union`. It then runs once for each branch.
    #[must_use]
    pub fn has_union(&self) -> bool {
        self.nodes().iter().any(|node| matches!(node, Node::Union(_)))
    }

    /// Variants with disjoint keys that together are this one: each has a branch, the parts outside of the union, and a
    /// mask that leaves out the keys of earlier branches. Their partial states (O, LSE) of a row merge into the state
    /// of the whole. A variant without a union gives itself.
    #[must_use]
    pub fn branches(&self) -> Vec<Variant> {
        let union = self.nodes().iter().position(|node| matches!(node, Node::Union(_)));
        let Some((index, Node::Union(branches))) = union.map(|i| (i, &self.nodes()[i])) else {
            return vec![self.clone()];
        };
        let (before, after) = (&self.nodes()[..index], &self.nodes()[index + 1..]);
        let masks = |branch: &Variant| {
            let masks = branch.nodes().iter().filter(|node| node.has(Hook::LogitsMask));
            Node::Except(Variant::of(masks.cloned().collect()))
        };
        (0..branches.len())
            .map(|k| {
                let branch = branches[k].nodes().iter().cloned();
                let earlier = branches[..k].iter().map(masks);
                let nodes = before.iter().cloned().chain(branch).chain(earlier).chain(after.iter().cloned());
                Variant::of(nodes.collect()).stored_as(self)
            })
            .collect()
    }
}
