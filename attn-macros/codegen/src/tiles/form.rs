//! A function as one expression: every value is a node, made of nodes before it.

use std::collections::HashMap;

use super::control;
use crate::{
    ir::{Expr, Function, Kind, LocalId, Op, Test},
    literals, names,
    parse::hook,
    types::{Ty, Types},
};

/// Number of a node.
pub type Id = usize;

/// An expression over abstract values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// An index word of the tile.
    Word(String),
    /// An argument of a helper.
    Arg(usize),
    /// `self.name`.
    Param(String),
    /// A constant, by its name in the text.
    Const(String),
    /// A variant of an enum: its type and its name in the text, and its name in Rust.
    #[allow(missing_docs)]
    Variant { ty: String, name: String, rust: String },
    /// An integer of a type; `None` is the literal's own, i32.
    Int(u64, Option<IntTy>),
    /// `i32::MIN`.
    LeastI32,
    /// `true`, `false`.
    Bool(bool),
    /// A float, or what is not followed.
    Any,
    /// `self.name[indices]`.
    Element(String, Vec<Id>),
    /// A helper, by its name in the text.
    Helper(String, Vec<Id>),
    /// A function of `attn_core::lang::range`, which has the same name in lang/interval.cuh.
    Op(&'static str, Vec<Id>),
}

/// The integer types that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum IntTy {
    I32,
    U32,
    U8,
}

/// A body as an expression.
#[derive(Debug)]
pub struct Form {
    /// Each after those that it is made of.
    pub nodes: Vec<Node>,
    /// The result.
    pub result: Id,
    /// The first thing that could not be followed.
    pub why_not: Option<&'static str>,
}

impl Node {
    /// The nodes that it is made of.
    #[must_use]
    pub fn children(&self) -> &[Id] {
        match self {
            Node::Element(_, ids) | Node::Helper(_, ids) | Node::Op(_, ids) => ids,
            _ => &[],
        }
    }
}

impl Form {
    /// The captured tensors that the result depends on.
    #[must_use]
    pub fn tables(&self) -> Vec<String> {
        let mut tables = Vec::new();
        let uses = super::uses(self);
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

/// What a value is made of: tuples and index words are taken apart here.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Node(Id),
    /// A tuple or an array.
    Tuple(Vec<Value>),
    /// The fields of a struct that were seen.
    Struct(Vec<(String, Value)>),
    /// The index of the logit, or its row.
    Index,
    Unit,
    /// Control does not get here.
    Never,
}

/// Reasons, as a user reads them.
pub(super) const FLOATS: &str = "the mask depends on float data";
pub(super) const LOOP: &str = "the mask has a loop whose number of steps is not a small constant";
pub(super) const LEAVES_LOOP: &str = "a loop of the mask is left by `break` or `continue`";
pub(super) const WIDE: &str = "the mask depends on 64-bit integers";
pub(super) const INDEX_PASSED: &str = "the mask passes the whole index to a helper";
pub(super) const CONSTRUCT: &str = "the mask uses a construct that is not followed";
pub(super) const LISTED: &str = "the mask depends on the order of a list of keys";
pub(super) const TOO_LONG: &str = "the mask is too long";

/// A constant that a helper is generic over: its name in Rust and in the text, and its type.
pub type Generic = (String, String, Ty);

/// Elements of an array that is followed.
const MOST_ELEMENTS: u64 = 64;

/// Nodes that one function may have: unrolled loops multiply.
const MOST_NODES: usize = 4000;

pub(super) struct Maker<'a> {
    pub(super) function: &'a Function,
    types: &'a Types,
    /// Constants that a helper is generic over: they are its first arguments.
    generics: &'a [Generic],
    nodes: Vec<Node>,
    known: HashMap<Node, Id>,
    pub(super) env: HashMap<LocalId, Value>,
    /// Values returned so far, each under a condition that holds after those before it did not.
    pub(super) returns: Vec<(Id, Value)>,
    /// Control has left the block at hand.
    pub(super) dead: bool,
    /// Nothing is derived.
    pub(super) failed: bool,
    why_not: Option<&'static str>,
}

/// The body of a mask or helper.
#[must_use]
pub fn of(f: &Function, types: &Types, generics: &[Generic]) -> Form {
    let mut maker = Maker {
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
    for (i, (local, ty)) in f.args.iter().enumerate() {
        if let Some(local) = local {
            let value = maker.argument(generics.len() + i, ty);
            maker.env.insert(*local, value);
        }
    }
    let tail = maker.block(&f.body);
    let value = maker.returned(tail);
    let any = maker.any();
    let result = match value {
        Value::Node(id) if !maker.failed => id,
        _ => any,
    };
    Form { nodes: maker.nodes, result, why_not: maker.why_not }
}

impl Maker<'_> {
    fn argument(&mut self, i: usize, ty: &Ty) -> Value {
        match self.types.settled(ty) {
            // of hooks: their words are those of the tile
            Ty::LogitIndex | Ty::RowIndex | Ty::KvIndex if hook::NAMES.contains(&self.function.name.as_str()) => {
                Value::Index
            }
            // the caller's literals may have no type of their own
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

    /// Nothing is derived, for this reason.
    pub(super) fn fail(&mut self, why: &'static str) {
        self.failed = true;
        self.why_not.get_or_insert(why);
    }

    /// A value that is not followed, for this reason.
    pub(super) fn lost(&mut self, why: &'static str) -> Value {
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

    /// A function of nodes; what is known whatever the tile is done here.
    pub(super) fn op(&mut self, name: &'static str, ids: Vec<Id>) -> Id {
        let truth = |id: Id| match self.nodes[id] {
            Node::Bool(b) => Some(b),
            _ => None,
        };
        match (name, ids.as_slice()) {
            ("both", &[a, b]) => match (truth(a), truth(b)) {
                (Some(true), _) => return b,
                (_, Some(true)) => return a,
                (Some(false), _) => return a,
                (_, Some(false)) => return b,
                _ if self.is_any(a) && self.is_any(b) => return a,
                _ => {}
            },
            ("either", &[a, b]) => match (truth(a), truth(b)) {
                (Some(false), _) => return b,
                (_, Some(false)) => return a,
                (Some(true), _) => return a,
                (_, Some(true)) => return b,
                _ if self.is_any(a) && self.is_any(b) => return a,
                _ => {}
            },
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

    /// The value as a node; tuples and the like are none.
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

    fn id(&mut self, e: &Expr) -> Id {
        let value = self.value(e);
        self.as_node(&value)
    }

    fn call(&mut self, name: &'static str, args: &[&Expr]) -> Value {
        let ids = args.iter().map(|e| self.id(e)).collect();
        Value::Node(self.op(name, ids))
    }

    pub(super) fn value(&mut self, e: &Expr) -> Value {
        let leaf = match &e.kind {
            Kind::Int(n) => self.literal(*n, &e.ty),
            Kind::Bool(b) => Node::Bool(*b),
            Kind::Param(name) => Node::Param(name.clone()),
            Kind::Const(name) => match self.generics.iter().position(|(_, own, _)| own == name) {
                Some(i) => return self.argument(i, &e.ty),
                None => Node::Const(name.clone()),
            },
            Kind::Builtin("I32_MIN") => Node::LeastI32,
            Kind::Variant { ty, name, rust } => {
                Node::Variant { ty: ty.clone(), name: name.clone(), rust: rust.clone() }
            }
            // which keys of a tile a list names, and in which order, is not known
            Kind::Word(_, word) if word == "kv_slot" => {
                self.fail(LISTED);
                Node::Any
            }
            Kind::Word(local, word) if self.env.get(local) == Some(&Value::Index) => Node::Word(word.clone()),
            _ => return self.compound(e),
        };
        Value::Node(self.node(leaf))
    }

    fn literal(&mut self, n: u64, ty: &Ty) -> Node {
        match self.types.settled(ty) {
            Ty::I32 => Node::Int(n, Some(IntTy::I32)),
            Ty::U32 => Node::Int(n, Some(IntTy::U32)),
            Ty::U8 => Node::Int(n, Some(IntTy::U8)),
            Ty::Var(_) if n <= i32::MAX as u64 => Node::Int(n, None),
            Ty::Var(_) if u32::try_from(n).is_ok() => Node::Int(n, Some(IntTy::U32)),
            _ => Node::Any,
        }
    }

    fn compound(&mut self, e: &Expr) -> Value {
        match &e.kind {
            Kind::Local(local) => match self.env.get(local) {
                Some(value) => value.clone(),
                None => self.lost(CONSTRUCT),
            },
            Kind::Float(_) | Kind::NegInfinity | Kind::Builtin(_) => self.lost(FLOATS),
            Kind::Element(name, indices) => {
                let ids = indices.iter().map(|i| self.id(i)).collect();
                Value::Node(self.node(Node::Element(name.clone(), ids)))
            }
            Kind::Neg(inner) => match inner.kind {
                Kind::Int(n) if n == 1 << 31 => Value::Node(self.node(Node::LeastI32)),
                _ => self.call("neg", &[inner]),
            },
            Kind::Not(inner) => self.call("bit_not", &[inner]),
            Kind::Binary(op, a, b) => self.binary(*op, a, b),
            Kind::Cast(inner, to) => match to {
                Ty::I32 => self.call("cast_i32", &[inner]),
                Ty::U32 => self.call("cast_u32", &[inner]),
                Ty::U8 => self.call("cast_u8", &[inner]),
                Ty::U64 => {
                    self.value(inner);
                    self.lost(WIDE)
                }
                _ => {
                    self.value(inner);
                    self.lost(FLOATS)
                }
            },
            Kind::Call(name, args) => self.method(name, args),
            Kind::Helper(name, args) => self.helper(name, args.iter()),
            Kind::HelperOf(name, consts, args) => self.helper(name, consts.iter().chain(args)),
            Kind::Tuple(items) | Kind::Array(items) => Value::Tuple(items.iter().map(|e| self.value(e)).collect()),
            Kind::Repeat(item, n) if *n <= MOST_ELEMENTS => {
                let item = self.value(item);
                Value::Tuple(vec![item; *n as usize])
            }
            Kind::Index(array, index) => {
                let (array, index) = (self.value(array), self.id(index));
                self.element(array, index)
            }
            Kind::SetElement { local, index, op, value } => {
                let (index, value) = (self.id(index), self.value(value));
                self.set_element(*local, index, *op, &value);
                Value::Unit
            }
            Kind::TupleField(inner, i) => match self.value(inner) {
                Value::Tuple(items) if *i < items.len() => items[*i].clone(),
                Value::Struct(fields) => self.field(&fields, names::TUPLE_FIELDS.get(*i).unwrap_or(&"")),
                _ => self.lost(CONSTRUCT),
            },
            Kind::Struct { base, fields, .. } => {
                let mut all = match base.as_deref().map(|base| self.value(base)) {
                    Some(Value::Struct(all)) => all,
                    _ => Vec::new(),
                };
                for (name, value) in fields {
                    // of which width a field is, and so where its arithmetic wraps, is not seen
                    let hidden = literals::is_literal(value) && self.types.is_hidden_int(&value.ty);
                    let value = if hidden { self.lost(CONSTRUCT) } else { self.value(value) };
                    all.retain(|(there, _)| there != name);
                    all.push((name.clone(), value));
                }
                Value::Struct(all)
            }
            Kind::Field(inner, name) => match self.value(inner) {
                Value::Struct(fields) => self.field(&fields, name),
                _ => self.lost(CONSTRUCT),
            },
            Kind::If { cond, then, other } => {
                let c = self.id(cond);
                self.branch(
                    c,
                    |m| m.block(then),
                    |m| match other {
                        Some(other) => m.block(other),
                        None => Value::Unit,
                    },
                )
            }
            Kind::Match { subject, bound, arms } => {
                let value = self.value(subject);
                self.env.insert(*bound, value);
                self.arms(arms, *bound)
            }
            Kind::Block(block) => self.block(block),
            Kind::Diverge(stmt) => {
                self.stmt(stmt);
                Value::Never
            }
            _ => {
                self.fail(CONSTRUCT);
                Value::Node(self.any())
            }
        }
    }

    /// A field that was seen, or anything.
    fn field(&mut self, fields: &[(String, Value)], name: &str) -> Value {
        field(fields, name).cloned().unwrap_or_else(|| self.lost(CONSTRUCT))
    }

    /// A helper: the constants that it is generic over come first.
    fn helper<'e>(&mut self, name: &str, args: impl Iterator<Item = &'e Expr>) -> Value {
        let mut ids = Vec::new();
        for arg in args {
            match self.value(arg) {
                Value::Node(id) => ids.push(id),
                Value::Struct(_) => ids.push(self.any()),
                _ => return self.lost(INDEX_PASSED),
            }
        }
        Value::Node(self.node(Node::Helper(name.to_owned(), ids)))
    }

    /// A binary operator of values that are nodes already.
    pub(super) fn operation(&mut self, op: Op, a: Id, b: Id) -> Id {
        self.op(function(op), vec![a, b])
    }

    fn binary(&mut self, op: Op, a: &Expr, b: &Expr) -> Value {
        // what is behind `&&` runs only sometimes
        if op.is_logical() && !control::is_pure(b) {
            self.fail(CONSTRUCT);
        }
        let (a, b) = (self.id(a), self.id(b));
        Value::Node(self.operation(op, a, b))
    }

    fn method(&mut self, name: &str, args: &[Expr]) -> Value {
        let ids: Vec<Id> = args.iter().map(|e| self.id(e)).collect();
        let name = match name {
            "wrapping_add" => "add",
            "wrapping_sub" => "sub",
            "wrapping_mul" => "mul",
            "wrapping_neg" => "neg",
            "wrapping_shl" => "shl",
            "wrapping_shr" => "shr",
            name => match METHODS.iter().find(|m| **m == name) {
                Some(name) => name,
                None => return self.lost(FLOATS),
            },
        };
        Value::Node(self.op(name, ids))
    }

    /// Whether an arm's pattern matches.
    pub(super) fn test(&mut self, test: &Test, subject: Id) -> Id {
        match test {
            Test::Always => self.node(Node::Bool(true)),
            Test::Equal(e) => {
                let value = self.id(e);
                self.op("eq", vec![subject, value])
            }
            Test::Range { from, to, inclusive } => {
                let mut result = self.node(Node::Bool(true));
                if let Some(from) = from {
                    let from = self.id(from);
                    result = self.op("ge", vec![subject, from]);
                }
                if let Some(to) = to {
                    let to = self.id(to);
                    let below = self.op(if *inclusive { "le" } else { "lt" }, vec![subject, to]);
                    result = self.op("both", vec![result, below]);
                }
                result
            }
            Test::Any(tests) => {
                let mut result = self.node(Node::Bool(false));
                for test in tests {
                    let one = self.test(test, subject);
                    result = self.op("either", vec![result, one]);
                }
                result
            }
        }
    }
}

/// The field of this name.
fn field<'f>(fields: &'f [(String, Value)], name: &str) -> Option<&'f Value> {
    fields.iter().find(|(there, _)| there == name).map(|(_, value)| value)
}

/// Methods of numbers that are followed, under their own names.
const METHODS: &[&str] = &[
    "abs",
    "min",
    "max",
    "clamp",
    "signum",
    "rem_euclid",
    "div_euclid",
    "pow",
    "saturating_add",
    "saturating_sub",
    "count_ones",
    "leading_zeros",
    "trailing_zeros",
    "is_power_of_two",
    "abs_diff",
    "unsigned_abs",
];

/// Whether something is known of a result though an operand is not.
fn is_lenient(name: &str) -> bool {
    matches!(name, "both" | "either" | "select" | "shl" | "shr" | "pow") || name.starts_with("cast")
}

fn function(op: Op) -> &'static str {
    match op {
        Op::Add => "add",
        Op::Sub => "sub",
        Op::Mul => "mul",
        Op::Div => "div",
        Op::Rem => "rem",
        Op::Shl => "shl",
        Op::Shr => "shr",
        Op::And => "bit_and",
        Op::Or => "bit_or",
        Op::Xor => "bit_xor",
        Op::Lt => "lt",
        Op::Le => "le",
        Op::Gt => "gt",
        Op::Ge => "ge",
        Op::Eq => "eq",
        Op::Ne => "ne",
        Op::AndAlso => "both",
        Op::OrElse => "either",
    }
}
