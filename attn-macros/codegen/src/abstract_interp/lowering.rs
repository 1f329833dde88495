//! State of lowering a function to its normal form: nodes so far, values of locals, and paths that have returned.

use std::collections::HashMap;

use super::normal_form::{Generic, Id, Node, NormalForm};
use crate::{
    hook,
    ir::{Function, LocalId},
    types::{Ty, Types},
};

/// The value of an expression. Tuples and indices are taken apart here, so that nodes are scalars.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Node(Id),
    /// A tuple or an array.
    Tuple(Vec<Value>),
    /// The known fields of a struct.
    Struct(Vec<(String, Value)>),
    /// The index of the logit, or its row.
    Index,
    Unit,
    /// Control does not reach this point.
    Never,
}

/// Reasons why nothing can be derived, as a user reads them.
pub(super) const FLOATS: &str = "the mask depends on float data";
pub(super) const LOOP: &str = "the mask has a loop whose number of steps is not a small constant";
pub(super) const LEAVES_LOOP: &str = "a loop of the mask is left by `break` or `continue`";
pub(super) const WIDE: &str = "the mask depends on 64-bit integers";
pub(super) const INDEX_PASSED: &str = "the mask passes the whole index to a helper";
pub(super) const CONSTRUCT: &str = "the mask uses a construct that is not followed";
pub(super) const LISTED: &str = "the mask depends on the order of a list of keys";
pub(super) const TOO_LONG: &str = "the mask is too long";

/// Most elements of an array that is taken apart.
pub(super) const MOST_ELEMENTS: u64 = 64;

/// Most nodes of one function: unrolled loops multiply them.
const MOST_NODES: usize = 4000;

pub(super) struct Lowering<'a> {
    pub(super) function: &'a Function,
    pub(super) types: &'a Types,
    /// Constants that a helper is generic over: they are its first arguments.
    pub(super) generics: &'a [Generic],
    pub(super) nodes: Vec<Node>,
    pub(super) known: HashMap<Node, Id>,
    pub(super) env: HashMap<LocalId, Value>,
    /// Values returned so far. Each condition holds given that those before it did not.
    pub(super) returns: Vec<(Id, Value)>,
    /// Whether the current path has returned.
    pub(super) dead: bool,
    /// Whether nothing can be derived.
    pub(super) failed: bool,
    pub(super) why_not: Option<&'static str>,
}

/// Lowers the body of a mask or helper.
#[must_use]
pub(super) fn of(f: &Function, types: &Types, generics: &[Generic]) -> NormalForm {
    let mut maker = Lowering {
        function: f,
        types,
        generics,
        nodes: Vec::new(),
        known: HashMap::new(),
        env: HashMap::new(),
        returns: Vec::new(),
        dead: false,
        failed: false,
        why_not: None,
    };
    for (i, argument) in f.args.iter().enumerate() {
        if let Some(local) = argument.local {
            let value = maker.argument(generics.len() + i, &argument.ty);
            maker.env.insert(local, value);
        }
    }
    let tail = maker.block(&f.body);
    let value = maker.returned(tail);
    let any = maker.any();
    let result = match value {
        Value::Node(id) if !maker.failed => id,
        _ => any,
    };
    NormalForm { nodes: maker.nodes, result, why_not: maker.why_not }
}

impl Lowering<'_> {
    pub(super) fn argument(&mut self, i: usize, ty: &Ty) -> Value {
        match self.types.settled(ty) {
            // the coordinates of a hook's index are those of the tile
            Ty::LogitIndex | Ty::RowIndex | Ty::KvIndex if hook::NAMES.contains(&self.function.name.as_str()) => {
                Value::Index
            }
            // an untyped literal of the caller takes the argument's type
            Ty::I32 => self.argument_as("cast_i32", i),
            Ty::U32 => self.argument_as("cast_u32", i),
            Ty::U8 => self.argument_as("cast_u8", i),
            Ty::Bool => Value::Node(self.node(Node::Arg(i))),
            _ => Value::Node(self.any()),
        }
    }

    fn argument_as(&mut self, cast: &'static str, i: usize) -> Value {
        let arg = self.node(Node::Arg(i));
        Value::Node(self.op(cast, vec![arg]))
    }

    /// Gives up on the function, for this reason.
    pub(super) fn fail(&mut self, why: &'static str) {
        self.failed = true;
        self.why_not.get_or_insert(why);
    }

    /// An unknown value, for this reason.
    pub(super) fn unknown(&mut self, why: &'static str) -> Value {
        self.why_not.get_or_insert(why);
        Value::Node(self.any())
    }

    pub(super) fn any(&mut self) -> Id {
        self.node(Node::Any)
    }

    pub(super) fn node_at(&self, id: Id) -> &Node {
        &self.nodes[id]
    }

    fn is_any(&self, id: Id) -> bool {
        matches!(self.nodes[id], Node::Any)
    }

    pub(super) fn node(&mut self, node: Node) -> Id {
        if let Some(&id) = self.known.get(&node) {
            return id;
        }
        if self.nodes.len() >= MOST_NODES {
            self.fail(TOO_LONG);
        }
        self.nodes.push(node.clone());
        self.known.insert(node, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Adds a function of nodes. Folds it if its result is the same for every tile.
    pub(super) fn op(&mut self, name: &'static str, ids: Vec<Id>) -> Id {
        let truth = |id: Id| match self.nodes[id] {
            Node::Bool(b) => Some(b),
            _ => None,
        };
        match (name, ids.as_slice()) {
            ("both" | "either", &[a, b]) => {
                let neutral = name == "both";
                match (truth(a), truth(b)) {
                    (Some(known), _) => return if known == neutral { b } else { a },
                    (_, Some(known)) => return if known == neutral { a } else { b },
                    _ if self.is_any(a) && self.is_any(b) => return a,
                    _ => {}
                }
            }
            ("bit_not", &[a]) => {
                if let Some(b) = truth(a) {
                    return self.node(Node::Bool(!b));
                }
            }
            ("select", &[c, a, b]) => match truth(c) {
                Some(true) => return a,
                Some(false) => return b,
                None if a == b => return a,
                None => {}
            },
            _ => {}
        }
        if ids.iter().any(|&id| self.is_any(id)) && !is_lenient(name) {
            return self.any();
        }
        self.node(Node::Op(name, ids))
    }

    /// The value as a node; a tuple or an index becomes unknown.
    pub(super) fn as_node(&mut self, value: &Value) -> Id {
        match value {
            Value::Node(id) => *id,
            _ => self.any(),
        }
    }

    pub(super) fn select(&mut self, c: Id, a: &Value, b: &Value) -> Value {
        match (a, b) {
            (a, b) if a == b => a.clone(),
            (Value::Never, other) | (other, Value::Never) => other.clone(),
            (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => {
                Value::Tuple(a.iter().zip(b).map(|(a, b)| self.select(c, a, b)).collect())
            }
            (Value::Struct(a), Value::Struct(b)) => {
                let both = a.iter().filter_map(|(name, x)| field(b, name).map(|y| (name, x, y)));
                Value::Struct(both.map(|(name, x, y)| (name.clone(), self.select(c, x, y))).collect())
            }
            (Value::Node(a), Value::Node(b)) => Value::Node(self.op("select", vec![c, *a, *b])),
            _ => Value::Node(self.any()),
        }
    }
}

/// The field of this name.
pub(super) fn field<'f>(fields: &'f [(String, Value)], name: &str) -> Option<&'f Value> {
    fields.iter().find(|(there, _)| there == name).map(|(_, value)| value)
}

/// Whether the result may be known even if an operand is unknown.
fn is_lenient(name: &str) -> bool {
    matches!(name, "both" | "either" | "select" | "shl" | "shr" | "pow") || name.starts_with("cast")
}
