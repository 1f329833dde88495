//! The normal form of a function: one expression as a list of nodes, each made of nodes before it.

use crate::types::Ty;

/// Index of a node.
pub type Id = usize;

/// An expression over abstract values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A coordinate of the tile.
    Coordinate(String),
    /// An argument of a helper.
    Arg(usize),
    /// `self.name`.
    Param(String),
    /// A constant, by its name in the text.
    Const(String),
    /// A variant of an enum: its type and its name in the text, and its name in Rust.
    #[allow(missing_docs)]
    Variant { ty: String, name: String, rust: String },
    /// An integer of a type; `None` is an untyped literal, an i32.
    Int(u64, Option<IntTy>),
    /// `i32::MIN`.
    LeastI32,
    /// `true`, `false`.
    Bool(bool),
    /// An unknown value, such as a float.
    Any,
    /// `self.name[indices]`.
    Element(String, Vec<Id>),
    /// A helper, by its name in the text.
    Helper(String, Vec<Id>),
    /// A function of `attn_core::lang::interval`, which has the same name in lang/interval.cuh.
    Op(&'static str, Vec<Id>),
}

/// The integer types with an abstract form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum IntTy {
    I32,
    U32,
    U8,
}

/// A body as one expression.
#[derive(Debug)]
pub struct NormalForm {
    /// Each comes after its operands.
    pub nodes: Vec<Node>,
    /// The result.
    pub result: Id,
    /// The first construct that has no abstract form.
    pub why_not: Option<&'static str>,
}

impl Node {
    /// The operands.
    #[must_use]
    pub fn children(&self) -> &[Id] {
        match self {
            Node::Element(_, ids) | Node::Helper(_, ids) | Node::Op(_, ids) => ids,
            _ => &[],
        }
    }
}

impl NormalForm {
    /// How often each node is used.
    #[must_use]
    pub fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.nodes.len()];
        uses[self.result] = 1;
        // operands come before the nodes that use them
        for id in (0..self.nodes.len()).rev() {
            if uses[id] > 0 {
                self.nodes[id].children().iter().for_each(|&child| uses[child] += 1);
            }
        }
        uses
    }

    /// The parameter tensors that the result depends on.
    #[must_use]
    pub fn tables(&self) -> Vec<String> {
        let mut tables = Vec::new();
        let uses = self.uses();
        for (node, _) in self.nodes.iter().zip(uses).filter(|(_, uses)| *uses > 0) {
            if let Node::Element(name, _) = node
                && !tables.contains(name)
            {
                tables.push(name.clone());
            }
        }
        tables
    }
}

/// A constant that a helper is generic over: its name in Rust and in the text, and its type.
pub type Generic = (String, String, Ty);

/// Whether a coordinate is the same all over a tile.
#[must_use]
pub fn is_uniform_coordinate(name: &str) -> bool {
    matches!(name, "batch" | "qo_len" | "kv_len")
}
