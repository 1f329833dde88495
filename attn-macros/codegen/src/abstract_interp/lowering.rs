//! State of lowering a function to its normal form: nodes so far, values of locals, and paths that have returned.

use std::collections::HashMap;

use super::interval_fn::IntervalFn as F;
use super::normal_form::{Generic, Id, IntTy, Node, NormalForm, OTHERS, magnitude_of};
use super::range_set::Set;
use crate::ir::{Function, LocalId};
use crate::types::{Ty, Types};
use crate::{budget, hook, names};

/// The value of an expression. Tuples and indices are taken apart here, so that nodes are scalars.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Node(Id),
    /// A tuple or an array.
    Tuple(Vec<Value>),
    /// The known fields of a struct, and the value that has the others.
    Struct(Vec<(String, Value)>, Option<Id>),
    /// The index of the logit, or its row.
    Index,
    /// The index that is an argument of a helper.
    IndexOf(usize),
    Unit,
    /// Control does not reach this point.
    Never,
}

impl Value {
    fn parts_left(&self, left: usize) -> Option<usize> {
        let left = left.checked_sub(1)?;
        match self {
            Value::Tuple(items) => items.iter().try_fold(left, |left, item| item.parts_left(left)),
            Value::Struct(fields, _) => fields.iter().try_fold(left, |left, (_, item)| item.parts_left(left)),
            _ => Some(left),
        }
    }
}

/// Reasons why nothing can be derived, as a user reads them.
pub(super) const FLOATS: &str = "the mask depends on float data";
pub(super) const LOOP: &str = "the mask has a loop whose variable is not an i32, or that returns more than a number";
pub(super) const CONSTRUCT: &str = "the mask uses a construct that is not followed";
pub(super) const LISTED: &str = "the mask depends on the order of a list of keys";
pub(super) const TOO_LONG: &str = "the mask is too long";

/// Most elements of an array that is taken apart.
pub(crate) const MOST_ELEMENTS: u64 = 64;

/// Most parts of a value, those of its parts included.
const MOST_PARTS: usize = 256;

/// Most nodes of one function: unrolled loops multiply them.
const MOST_NODES: usize = 4000;

pub(super) struct Lowering<'a> {
    pub(super) function: &'a Function,
    pub(super) types: &'a Types,
    /// Constants that a helper is generic over: they are its first arguments.
    pub(super) generics: &'a [Generic],
    pub(super) nodes: Vec<Node>,
    /// The largest magnitude of each node.
    pub(super) magnitudes: Vec<Option<u64>>,
    pub(super) known: HashMap<Node, Id>,
    pub(super) env: HashMap<LocalId, Value>,
    /// The sets of conditions on sums.
    pub(super) sets: HashMap<Id, Set>,
    /// Which arguments have parts.
    pub(super) compound: Vec<bool>,
    /// The number of loops that run over abstract values.
    pub(super) loops: usize,
    /// Such loops around what is being lowered.
    pub(super) loops_around: usize,
    /// Values returned so far. Each condition holds given that those before it did not.
    pub(super) returns: Vec<(Id, Value)>,
    /// Whether the current path has returned.
    pub(super) dead: bool,
    /// Whether nothing can be derived.
    pub(super) failed: bool,
    pub(super) why_not: Option<&'static str>,
}

/// Lowers the body of a mask or helper.
pub(super) fn of(f: &Function, types: &Types, generics: &[Generic]) -> NormalForm {
    let mut maker = Lowering {
        function: f,
        types,
        generics,
        nodes: Vec::new(),
        magnitudes: Vec::new(),
        known: HashMap::new(),
        env: HashMap::new(),
        sets: HashMap::new(),
        compound: vec![false; generics.len() + f.args.len()],
        loops: 0,
        loops_around: 0,
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
    if budget::is_spent() {
        maker.fail(TOO_LONG);
    }
    let any = maker.any();
    let result = if maker.failed { any } else { maker.whole(&value) };
    let Lowering { nodes, compound, why_not, .. } = maker;
    NormalForm { nodes, result, compound, why_not }
}

impl Lowering<'_> {
    pub(super) fn argument(&mut self, i: usize, ty: &Ty) -> Value {
        match self.types.settled(ty) {
            // the coordinates of a hook's index are those of the tile
            Ty::LogitIndex | Ty::RowIndex | Ty::KvIndex if hook::NAMES.contains(&self.function.name.as_str()) => {
                Value::Index
            }
            Ty::LogitIndex | Ty::RowIndex | Ty::KvIndex => {
                self.compound[i] = true;
                Value::IndexOf(i)
            }
            // an untyped literal of the caller takes the argument's type
            Ty::I32 => self.argument_as(F::CastI32, i),
            Ty::U32 => self.argument_as(F::CastU32, i),
            Ty::U8 => self.argument_as(F::CastU8, i),
            Ty::U64 => self.argument_as(F::CastU64, i),
            Ty::I64 => self.argument_as(F::CastI64, i),
            Ty::Bool => Value::Node(self.node(Node::Arg(i))),
            ty @ (Ty::Tuple(_) | Ty::Array(..) | Ty::Device(_)) => {
                self.compound[i] = true;
                let arg = self.node(Node::Arg(i));
                self.typed_part(arg, &ty)
            }
            _ => Value::Node(self.any()),
        }
    }

    /// A value of this type, which is an argument or a part of one.
    fn typed_part(&mut self, id: Id, ty: &Ty) -> Value {
        if !self.goes_on(1) {
            return Value::Node(self.any());
        }
        let parts: Vec<Ty> = match self.types.settled(ty) {
            Ty::I32 => return Value::Node(self.op(F::CastI32, vec![id])),
            Ty::U32 => return Value::Node(self.op(F::CastU32, vec![id])),
            Ty::U8 => return Value::Node(self.op(F::CastU8, vec![id])),
            Ty::U64 => return Value::Node(self.op(F::CastU64, vec![id])),
            Ty::I64 => return Value::Node(self.op(F::CastI64, vec![id])),
            Ty::Bool | Ty::Device(_) => return Value::Node(id),
            Ty::Tuple(items) => items,
            Ty::Array(item, n) if n <= MOST_ELEMENTS => vec![*item; n as usize],
            _ => return Value::Node(self.any()),
        };
        let typed = parts.iter().enumerate().map(|(i, ty)| {
            let part = self.node(Node::Part(id, position(i)));
            self.typed_part(part, ty)
        });
        Value::Tuple(typed.collect())
    }

    fn argument_as(&mut self, cast: F, i: usize) -> Value {
        let arg = self.node(Node::Arg(i));
        Value::Node(self.op(cast, vec![arg]))
    }

    /// Whether to go on: nothing is followed further once nothing can be derived.
    pub(super) fn goes_on(&mut self, steps: usize) -> bool {
        if !budget::spend(steps) {
            self.fail(TOO_LONG);
        }
        !self.failed
    }

    /// The value, unless it has too many parts: a part may be used twice at each level.
    pub(super) fn bounded(&mut self, value: Value) -> Value {
        if value.parts_left(MOST_PARTS).is_some() { value } else { self.unknown(TOO_LONG) }
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
        self.magnitudes.push(magnitude_of(&node, &self.nodes, &self.magnitudes));
        self.nodes.push(node.clone());
        self.known.insert(node, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Adds a function of nodes. Folds it if its result is the same for every tile.
    pub(super) fn op(&mut self, name: F, ids: Vec<Id>) -> Id {
        let truth = |id: Id| match self.nodes[id] {
            Node::Bool(b) => Some(b),
            _ => None,
        };
        match (name, ids.as_slice()) {
            (F::Both | F::Either, &[a, b]) => {
                let neutral = name == F::Both;
                match (truth(a), truth(b)) {
                    (Some(known), _) => return if known == neutral { b } else { a },
                    (_, Some(known)) => return if known == neutral { a } else { b },
                    _ if self.is_any(a) && self.is_any(b) => return a,
                    _ => {}
                }
            }
            (F::BitNot, &[a]) => {
                if let Some(b) = truth(a) {
                    return self.node(Node::Bool(!b));
                }
            }
            (F::Select, &[c, a, b]) => match truth(c) {
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
        if let Some(id) = self.special(name, &ids) {
            return id;
        }
        let id = self.node(Node::Op(name, ids));
        self.merged(id)
    }

    /// Forms of which a function of their own knows more.
    fn special(&mut self, name: F, ids: &[Id]) -> Option<Id> {
        let of = |id: Id, function: F| match &self.nodes[id] {
            Node::Op(there, ids) if *there == function => Some(ids.clone()),
            _ => None,
        };
        let less_one = |id: Id| {
            of(id, F::Sub).filter(|ids| {
                matches!(self.nodes[ids[1]], Node::Int(1, None | Some(IntTy::I32 | IntTy::U32 | IntTy::U8)))
            })
        };
        // the cell of a cycle: `x.rem_euclid(m) / size`
        let cell = |id: Id| {
            let (within, size) = of(id, F::Div).map(|ids| (ids[0], ids[1]))?;
            of(within, F::RemEuclid).map(|ids| (ids[0], ids[1], size))
        };
        let (function, operands) = match (name, ids) {
            (F::BitAnd, &[a, b]) if less_one(b).is_some_and(|ids| ids[0] == a) => (F::ClearLowest, vec![a]),
            (F::BitAnd, &[a, b]) if less_one(a).is_some_and(|ids| ids[0] == b) => (F::ClearLowest, vec![b]),
            (F::Eq, &[a, b]) => match (cell(a), cell(b)) {
                (Some((x, m, size)), Some((y, n, other))) if (m, size) == (n, other) => {
                    (F::EqCells, vec![x, y, m, size])
                }
                (Some((x, m, size)), _) => (F::EqCell, vec![x, m, size, b]),
                (None, Some((y, m, size))) => (F::EqCell, vec![y, m, size, a]),
                (None, None) => return None,
            },
            _ => return None,
        };
        Some(self.node(Node::Op(function, operands)))
    }

    /// The largest magnitude of an i32, where it is known and nothing wraps.
    pub(super) fn magnitude(&self, id: Id) -> Option<u64> {
        self.magnitudes[id]
    }

    /// The value as a node; a tuple or an index becomes unknown.
    pub(super) fn as_node(&mut self, value: &Value) -> Id {
        match value {
            Value::Node(id) => *id,
            _ => self.any(),
        }
    }

    /// The value as one node, with its parts.
    pub(super) fn whole(&mut self, value: &Value) -> Id {
        match value {
            Value::Node(id) => *id,
            Value::Tuple(items) => {
                let ids = items.iter().map(|item| self.whole_part(item)).collect();
                self.node(Node::Many((0..items.len()).map(position).collect(), ids))
            }
            Value::Struct(fields, base) => {
                let mut names: Vec<String> = base.iter().map(|_| OTHERS.to_owned()).collect();
                let mut ids: Vec<Id> = base.iter().map(|&base| self.whole_part(&Value::Node(base))).collect();
                for (name, value) in fields {
                    names.push(name.clone());
                    ids.push(self.whole_part(value));
                }
                self.node(Node::Many(names, ids))
            }
            Value::Index => self.node(Node::Tile),
            Value::IndexOf(i) => self.node(Node::Arg(*i)),
            Value::Unit | Value::Never => self.any(),
        }
    }

    /// The value as one node of its graph, like [`Self::whole`], where it may have parts: the result of a helper.
    fn whole_part(&mut self, value: &Value) -> Id {
        let id = self.whole(value);
        match self.nodes[id].clone() {
            Node::Helper(name, ids) => self.node(Node::Call(name, ids)),
            _ => id,
        }
    }

    /// A part of a value, by its name or position.
    pub(super) fn part(&mut self, value: &Value, name: &str) -> Value {
        match value {
            Value::Tuple(items) => {
                let item = (0..items.len()).find(|&i| position(i) == name).map(|i| items[i].clone());
                item.unwrap_or_else(|| self.unknown(CONSTRUCT))
            }
            Value::Struct(fields, base) => match (field(fields, name), base) {
                (Some(value), _) => value.clone(),
                (None, Some(base)) => Value::Node(self.part_of(*base, name)),
                (None, None) => self.unknown(CONSTRUCT),
            },
            Value::Node(id) => Value::Node(self.part_of(*id, name)),
            _ => self.unknown(CONSTRUCT),
        }
    }

    fn part_of(&mut self, id: Id, name: &str) -> Id {
        match self.nodes[id].clone() {
            Node::Helper(helper, ids) => {
                let call = self.node(Node::Call(helper, ids));
                self.node(Node::Part(call, name.to_owned()))
            }
            Node::Call(..) | Node::Part(..) | Node::Arg(_) => self.node(Node::Part(id, name.to_owned())),
            Node::Many(names, ids) => match names.iter().position(|there| there == name) {
                Some(at) => ids[at],
                None if names.first().is_some_and(|name| name == OTHERS) => self.part_of(ids[0], name),
                None => self.any(),
            },
            Node::Op(F::Select, ids) => {
                let (a, b) = (self.part_of(ids[1], name), self.part_of(ids[2], name));
                self.op(F::Select, vec![ids[0], a, b])
            }
            _ => {
                self.why_not.get_or_insert(CONSTRUCT);
                self.any()
            }
        }
    }

    /// An array or a tuple of this type as its items.
    pub(super) fn spread(&mut self, value: Value, ty: &Ty) -> Value {
        let n = match self.types.settled(ty) {
            Ty::Array(_, n) if n <= MOST_ELEMENTS => n as usize,
            _ => return value,
        };
        match value {
            Value::Node(_) => Value::Tuple((0..n).map(|i| self.part(&value, &position(i))).collect()),
            value => value,
        }
    }

    pub(super) fn select(&mut self, c: Id, a: &Value, b: &Value) -> Value {
        if !self.goes_on(1) {
            return Value::Node(self.any());
        }
        match (a, b) {
            (a, b) if a == b => a.clone(),
            (Value::Never, other) | (other, Value::Never) => other.clone(),
            (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => {
                Value::Tuple(a.iter().zip(b).map(|(a, b)| self.select(c, a, b)).collect())
            }
            (Value::Tuple(items), Value::Node(_)) | (Value::Node(_), Value::Tuple(items)) => {
                let all = (0..items.len()).map(|i| {
                    let (a, b) = (self.part(a, &position(i)), self.part(b, &position(i)));
                    self.select(c, &a, &b)
                });
                Value::Tuple(all.collect())
            }
            (Value::Struct(fields, base), Value::Node(other)) => {
                self.select(c, &Value::Struct(fields.clone(), *base), &Value::Struct(Vec::new(), Some(*other)))
            }
            (Value::Node(other), Value::Struct(fields, base)) => {
                self.select(c, &Value::Struct(Vec::new(), Some(*other)), &Value::Struct(fields.clone(), *base))
            }
            (Value::Struct(x, of_x), Value::Struct(y, of_y)) => {
                let mut names: Vec<&String> = x.iter().map(|(name, _)| name).collect();
                names.extend(y.iter().map(|(name, _)| name).filter(|name| field(x, name).is_none()));
                let known = |fields: &[(String, Value)], base: &Option<Id>, name: &str| {
                    base.is_some() || field(fields, name).is_some()
                };
                let mut fields = Vec::new();
                for name in names.into_iter().filter(|name| known(x, of_x, name) && known(y, of_y, name)) {
                    let (x, y) = (self.part(a, name), self.part(b, name));
                    fields.push((name.clone(), self.select(c, &x, &y)));
                }
                let base = of_x.zip(*of_y).map(|(x, y)| self.op(F::Select, vec![c, x, y]));
                Value::Struct(fields, base)
            }
            (Value::Node(a), Value::Node(b)) => Value::Node(self.op(F::Select, vec![c, *a, *b])),
            _ => Value::Node(self.any()),
        }
    }
}

/// The name of an item of a tuple, a tuple struct or an array.
pub(crate) fn position(i: usize) -> String {
    names::TUPLE_FIELDS.get(i).map_or_else(|| format!("at{i}"), |name| (*name).to_owned())
}

/// The field of this name.
pub(super) fn field<'f>(fields: &'f [(String, Value)], name: &str) -> Option<&'f Value> {
    fields.iter().find(|(there, _)| there == name).map(|(_, value)| value)
}

/// Whether the result may be known even if an operand is unknown.
fn is_lenient(function: F) -> bool {
    let is_cast = matches!(function, F::CastI32 | F::CastU32 | F::CastU8 | F::CastU64 | F::CastI64);
    is_cast || matches!(function, F::Both | F::Either | F::Select | F::Shl | F::Shr | F::Pow)
}
