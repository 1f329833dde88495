//! A variant with a union, as variants without one.

use super::node::Node;
use super::variant::Variant;
use crate::lang::Hook;

impl Variant {
    /// Whether the composition has a `union`, so that it runs arm by arm.
    #[must_use]
    pub fn has_union(&self) -> bool {
        self.nodes().iter().any(|node| matches!(node, Node::Union(_)))
    }

    /// The variants whose keys are disjoint, and which together are this one: an arm, what stands outside of the union, and a
    /// mask that leaves out the keys of earlier arms. States of rows under them merge into that of the whole. Of a variant
    /// without union, itself.
    #[must_use]
    pub fn arms(&self) -> Vec<Variant> {
        let union = self.nodes().iter().position(|node| matches!(node, Node::Union(_)));
        let Some((place, Node::Union(arms))) = union.map(|i| (i, &self.nodes()[i])) else { return vec![self.clone()] };
        let (before, after) = (&self.nodes()[..place], &self.nodes()[place + 1..]);
        let masks = |arm: &Variant| {
            let masks = arm.nodes().iter().filter(|node| node.has(Hook::LogitsMask));
            Node::Except(Variant::of(masks.cloned().collect()))
        };
        (0..arms.len())
            .map(|k| {
                let arm = arms[k].nodes().iter().cloned();
                let earlier = arms[..k].iter().map(masks);
                let nodes = before.iter().cloned().chain(arm).chain(earlier).chain(after.iter().cloned());
                Variant::of(nodes.collect()).over(self.stored())
            })
            .collect()
    }
}
