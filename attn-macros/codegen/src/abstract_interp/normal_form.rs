//! The normal form of a function: one expression as a list of nodes, each made of nodes before it.

use super::interval_fn::IntervalFn as F;
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
    /// A constant of 64 bits.
    WideConst(String),
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
    /// A helper of scalars, by its name in the text.
    Helper(String, Vec<Id>),
    /// A helper with an argument or a result that has parts.
    Call(String, Vec<Id>),
    /// The tile of a hook's index.
    Tile,
    /// A coordinate of the index that is an argument of a helper.
    CoordinateOf(usize, String),
    /// A tuple, a struct or an array: the names of its parts, and the parts. The first may be [`OTHERS`].
    Many(Vec<String>, Vec<Id>),
    /// A part of a value, by name.
    Part(Id, String),
    /// The variable of a loop, and a value that it changes, by the loop's number.
    LoopVar(usize),
    #[allow(missing_docs)]
    LoopState(usize, usize),
    /// A loop that runs over abstract values.
    Loop(Loop),
    /// A value after a loop.
    LoopOut(Id, usize),
    /// A function of nodes.
    Op(F, Vec<Id>),
}

/// The name of the struct that has the other fields: `..base`.
pub const OTHERS: &str = "..";

/// A loop `for i in from..to` whose bounds are known when a tile is classified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// Its number in the function; those inside have greater ones.
    pub number: usize,
    /// Whether it is `from..=to`.
    pub inclusive: bool,
    /// The function that gives each value its type: `cast_i32`, `truth`.
    pub types: Vec<F>,
    /// `from`, `to`, the values before the loop, and the values after one step.
    pub ids: Vec<Id>,
}

/// The integer types with an abstract form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum IntTy {
    I32,
    U32,
    U8,
    U64,
    I64,
}

/// A body as one expression.
#[derive(Debug)]
pub struct NormalForm {
    /// Each comes after its operands.
    pub nodes: Vec<Node>,
    /// The result.
    pub result: Id,
    /// Which arguments of a helper have parts.
    pub compound: Vec<bool>,
    /// The first construct that has no abstract form.
    pub why_not: Option<&'static str>,
}

impl Node {
    /// The operands.
    pub fn children(&self) -> &[Id] {
        match self {
            Node::Element(_, ids) | Node::Helper(_, ids) | Node::Call(_, ids) | Node::Op(_, ids) => ids,
            Node::Many(_, ids) | Node::Loop(Loop { ids, .. }) => ids,
            Node::Part(id, _) | Node::LoopOut(id, _) => std::slice::from_ref(id),
            _ => &[],
        }
    }
}

impl Loop {
    /// The values before the loop.
    pub fn before(&self) -> &[Id] {
        &self.ids[2..2 + self.types.len()]
    }

    /// The values after one step.
    pub fn after(&self) -> &[Id] {
        &self.ids[2 + self.types.len()..]
    }
}

impl NormalForm {
    /// Whether a node is a value with parts, or may be one.
    pub fn has_parts(&self, id: Id) -> bool {
        match &self.nodes[id] {
            Node::Call(..) | Node::Tile | Node::Many(..) | Node::Part(..) => true,
            Node::Arg(i) => self.compound.get(*i).copied().unwrap_or(false),
            _ => false,
        }
    }

    /// Whether a helper takes and gives scalars alone.
    pub fn is_scalar(&self) -> bool {
        !self.compound.contains(&true) && !matches!(self.nodes[self.result], Node::Many(..) | Node::Call(..))
    }

    /// The innermost loop whose step a node depends on, by its number.
    pub fn inside(&self) -> Vec<Option<usize>> {
        let mut all: Vec<Vec<usize>> = Vec::new();
        for node in &self.nodes {
            let mut loops: Vec<usize> = match node {
                Node::LoopVar(number) | Node::LoopState(number, _) => vec![*number],
                node => node.children().iter().flat_map(|&id| all[id].iter().copied()).collect(),
            };
            if let Node::Loop(Loop { number, .. }) = node {
                loops.retain(|there| there != number);
            }
            loops.sort_unstable();
            loops.dedup();
            all.push(loops);
        }
        all.into_iter().map(|loops| loops.last().copied()).collect()
    }

    /// How often each node is used.
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

    /// The nodes that are so far from the variables below them that they get one too: what is nested deeply runs out of
    /// stack in a parser or in a compiler. `uses` are those of [`Self::uses`].
    pub fn far(&self, uses: &[usize]) -> Vec<bool> {
        const MOST: usize = 64;
        let mut depths: Vec<usize> = Vec::with_capacity(self.nodes.len());
        let far = self.nodes.iter().zip(uses).map(|(node, uses)| {
            let depth = node.children().iter().map(|&id| depths[id] + 1).max().unwrap_or(0);
            let far = depth > MOST;
            depths.push(if far || *uses > 1 { 0 } else { depth });
            far
        });
        far.collect()
    }

    /// The parameter tensors that the result depends on.
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
pub fn is_uniform_coordinate(name: &str) -> bool {
    matches!(name, "batch" | "qo_len" | "kv_len")
}

/// Coordinates are smaller in magnitude.
const COORDINATE_LIMIT: u64 = 1 << 30;

/// The largest magnitude of each node.
pub(super) fn magnitudes(nodes: &[Node]) -> Vec<Option<u64>> {
    // operands come first, and many nodes may share one
    let mut known: Vec<Option<u64>> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let magnitude = magnitude_of(node, nodes, &known);
        known.push(magnitude);
    }
    known
}

/// The largest magnitude of an i32, where it is known and nothing wraps, given those of the nodes before it.
pub(super) fn magnitude_of(node: &Node, nodes: &[Node], known: &[Option<u64>]) -> Option<u64> {
    let of = |id: Id| known.get(id).copied().flatten();
    let sum = |n: u64| (n <= i32::MAX as u64).then_some(n);
    match node {
        Node::Coordinate(_) | Node::CoordinateOf(..) => Some(COORDINATE_LIMIT - 1),
        Node::Int(n, None | Some(IntTy::I32)) => sum(*n),
        Node::Op(F::Add | F::Sub, ids) => sum(of(ids[0])? + of(ids[1])?),
        Node::Op(F::Mul, ids) => sum(of(ids[0])?.checked_mul(of(ids[1])?)?),
        Node::Op(F::Neg | F::Abs | F::Signum, ids) => of(ids[0]),
        Node::Op(F::Min | F::Max, ids) => Some(of(ids[0])?.max(of(ids[1])?)),
        Node::Op(F::Select, ids) => Some(of(ids[1])?.max(of(ids[2])?)),
        Node::Op(F::Div, ids) if matches!(nodes[ids[1]], Node::Int(n, _) if n > 0) => of(ids[0]),
        _ => None,
    }
}
