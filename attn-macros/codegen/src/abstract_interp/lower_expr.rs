//! Lowers expressions to nodes.

use super::effects;
use super::interval_fn::IntervalFn as F;
use super::lowering::{CONSTRUCT, FLOATS, LISTED, Lowering, MOST_ELEMENTS, Value, position};
use super::normal_form::{Id, IntTy, Node};
use crate::ir::{Expr, Kind, Op, Test};
use crate::literals;
use crate::methods::METHODS;
use crate::types::Ty;

impl Lowering<'_> {
    fn id(&mut self, e: &Expr) -> Id {
        let value = self.value(e);
        self.as_node(&value)
    }

    fn call(&mut self, function: F, args: &[&Expr]) -> Value {
        let ids = args.iter().map(|e| self.id(e)).collect();
        Value::Node(self.op(function, ids))
    }

    pub(super) fn value(&mut self, e: &Expr) -> Value {
        if !self.goes_on(1) {
            return Value::Node(self.any());
        }
        let leaf = match &e.kind {
            Kind::Int(n) => self.literal(*n, &e.ty),
            Kind::Bool(b) => Node::Bool(*b),
            Kind::Param(name) => Node::Param(name.clone()),
            Kind::Const(name) => match self.generics.iter().position(|(_, own, _)| own == name) {
                Some(i) => return self.argument(i, &e.ty),
                None if matches!(self.types.settled(&e.ty), Ty::U64 | Ty::I64) => Node::WideConst(name.clone()),
                None => Node::Const(name.clone()),
            },
            Kind::Builtin("I32_MIN") => Node::LeastI32,
            Kind::Variant { ty, name, rust } => {
                Node::Variant { ty: ty.clone(), name: name.clone(), rust: rust.clone() }
            }
            // the keys of a list, and their order, are unknown
            Kind::Coordinate(_, word) if word == "kv_slot" => {
                self.fail(LISTED);
                Node::Any
            }
            Kind::Coordinate(local, word) if self.env.get(local) == Some(&Value::Index) => {
                Node::Coordinate(word.clone())
            }
            Kind::Coordinate(local, word) => match self.env.get(local) {
                Some(Value::IndexOf(i)) => Node::CoordinateOf(*i, word.clone()),
                _ => return self.compound(e),
            },
            _ => return self.compound(e),
        };
        Value::Node(self.node(leaf))
    }

    fn literal(&mut self, n: u64, ty: &Ty) -> Node {
        match self.types.settled(ty) {
            Ty::I32 => Node::Int(n, Some(IntTy::I32)),
            Ty::U32 => Node::Int(n, Some(IntTy::U32)),
            Ty::U8 => Node::Int(n, Some(IntTy::U8)),
            Ty::U64 => Node::Int(n, Some(IntTy::U64)),
            Ty::I64 if i64::try_from(n).is_ok() => Node::Int(n, Some(IntTy::I64)),
            // an index of an array
            Ty::Usize if n <= i32::MAX as u64 => Node::Int(n, Some(IntTy::I32)),
            Ty::Var(_) if n <= i32::MAX as u64 => Node::Int(n, None),
            Ty::Var(_) if u32::try_from(n).is_ok() => Node::Int(n, Some(IntTy::U32)),
            _ => Node::Any,
        }
    }

    fn compound(&mut self, e: &Expr) -> Value {
        match &e.kind {
            Kind::Local(local) => match self.env.get(local) {
                Some(value) => value.clone(),
                None => self.unknown(CONSTRUCT),
            },
            Kind::Float(_) | Kind::NegInfinity | Kind::Builtin(_) => self.unknown(FLOATS),
            Kind::Element(name, indices) => {
                let ids = indices.iter().map(|i| self.id(i)).collect();
                Value::Node(self.node(Node::Element(name.clone(), ids)))
            }
            Kind::Neg(inner) => match inner.kind {
                Kind::Int(n) if n == 1 << 31 && self.types.settled(&e.ty) != Ty::I64 => {
                    Value::Node(self.node(Node::LeastI32))
                }
                _ => self.call(F::Neg, &[inner]),
            },
            Kind::Not(inner) => self.call(F::BitNot, &[inner]),
            Kind::Binary(op, a, b) => self.binary(*op, a, b),
            Kind::Cast(inner, to) => match to {
                Ty::I32 => self.call(F::CastI32, &[inner]),
                Ty::U32 => self.call(F::CastU32, &[inner]),
                Ty::U8 => self.call(F::CastU8, &[inner]),
                // an index of an array is small and not negative
                Ty::Usize => self.value(inner),
                Ty::U64 => self.call(F::CastU64, &[inner]),
                Ty::I64 => self.call(F::CastI64, &[inner]),
                _ => {
                    self.value(inner);
                    self.unknown(FLOATS)
                }
            },
            Kind::Call(name, args) => self.method(name, args),
            Kind::Helper(name, args) => self.helper(name, args.iter()),
            Kind::HelperOf(name, consts, args) => self.helper(name, consts.iter().chain(args)),
            Kind::Tuple(items) | Kind::Array(items) => {
                let items = Value::Tuple(items.iter().map(|e| self.value(e)).collect());
                self.bounded(items)
            }
            Kind::Repeat(item, n) if *n <= MOST_ELEMENTS => {
                let item = self.value(item);
                let items = Value::Tuple(vec![item; *n as usize]);
                self.bounded(items)
            }
            Kind::Index(array, index) => {
                let (of, index) = (self.value(array), self.id(index));
                let of = self.spread(of, &array.ty);
                self.element(of, index)
            }
            Kind::SetElement { local, index, op, value } => {
                let (index, value) = (self.id(index), self.value(value));
                self.set_element(*local, index, *op, &value);
                Value::Unit
            }
            Kind::TupleField(inner, i) => {
                let value = self.value(inner);
                self.part(&value, &position(*i))
            }
            Kind::Struct { base, fields, .. } => {
                let (mut all, base) = match base.as_deref().map(|base| self.value(base)) {
                    Some(Value::Struct(all, base)) => (all, base),
                    Some(Value::Node(base)) => (Vec::new(), Some(base)),
                    _ => (Vec::new(), None),
                };
                for (name, value) in fields {
                    // the width of the field is unknown here, so its arithmetic may wrap anywhere
                    let hidden = literals::is_made_of_literals(value) && self.types.is_external_int(&value.ty);
                    let value = if hidden { self.unknown(CONSTRUCT) } else { self.value(value) };
                    all.retain(|(there, _)| there != name);
                    all.push((name.clone(), value));
                }
                self.bounded(Value::Struct(all, base))
            }
            Kind::Field(inner, name) => {
                let value = self.value(inner);
                self.part(&value, name)
            }
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

    /// A call of a helper; the constants that it is generic over come first.
    fn helper<'e>(&mut self, name: &str, args: impl Iterator<Item = &'e Expr>) -> Value {
        let (mut ids, mut scalar) = (Vec::new(), true);
        for arg in args {
            let value = self.value(arg);
            let id = self.whole(&value);
            // whether another helper's result has parts cannot be seen from here
            let unseen =
                matches!(self.types.settled(&arg.ty), Ty::Var(_) | Ty::Device(_) | Ty::Tuple(_) | Ty::Array(..));
            let id = match self.node_at(id).clone() {
                Node::Helper(name, ids) if unseen => self.node(Node::Call(name, ids)),
                _ => id,
            };
            scalar &= match self.node_at(id) {
                Node::Call(..) | Node::Tile | Node::Many(..) | Node::Part(..) => false,
                Node::Arg(i) => !self.compound[*i],
                _ => true,
            };
            ids.push(id);
        }
        let name = name.to_owned();
        Value::Node(self.node(if scalar { Node::Helper(name, ids) } else { Node::Call(name, ids) }))
    }

    /// A binary operator on nodes.
    pub(super) fn operation(&mut self, op: Op, a: Id, b: Id) -> Id {
        self.op(op.over(), vec![a, b])
    }

    fn binary(&mut self, op: Op, a: &Expr, b: &Expr) -> Value {
        // the right operand of `&&` may not run, so it must have no effects
        if op.is_logical() && !effects::is_pure(b) {
            self.fail(CONSTRUCT);
        }
        let (a, b) = (self.id(a), self.id(b));
        Value::Node(self.operation(op, a, b))
    }

    fn method(&mut self, name: &str, args: &[Expr]) -> Value {
        let ids: Vec<Id> = args.iter().map(|e| self.id(e)).collect();
        match METHODS.iter().find(|method| method.name == name).and_then(|method| method.over) {
            Some(function) => Value::Node(self.op(function, ids)),
            None => self.unknown(FLOATS),
        }
    }

    /// The condition under which an arm's pattern matches.
    pub(super) fn test(&mut self, test: &Test, subject: Id) -> Id {
        match test {
            Test::Always => self.node(Node::Bool(true)),
            Test::Equal(e) => {
                let value = self.id(e);
                self.op(F::Eq, vec![subject, value])
            }
            Test::Range { from, to, inclusive } => {
                let mut result = self.node(Node::Bool(true));
                if let Some(from) = from {
                    let from = self.id(from);
                    result = self.op(F::Ge, vec![subject, from]);
                }
                if let Some(to) = to {
                    let to = self.id(to);
                    let below = self.op(if *inclusive { F::Le } else { F::Lt }, vec![subject, to]);
                    result = self.op(F::Both, vec![result, below]);
                }
                result
            }
            Test::Any(tests) => {
                let mut result = self.node(Node::Bool(false));
                for test in tests {
                    let one = self.test(test, subject);
                    result = self.op(F::Either, vec![result, one]);
                }
                result
            }
        }
    }
}
