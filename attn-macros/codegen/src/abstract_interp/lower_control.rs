//! Lowers statements, branches and loops to selects between values.

use super::effects::is_pure;
use super::interval_fn::IntervalFn as F;
use super::lower_loop::{BROKEN, LEFT};
use super::lowering::{CONSTRUCT, Lowering, Value, position};
use super::normal_form::{Id, Node};
use crate::ir::{Arm, Block, Expr, LocalId, Op, Stmt};

impl Lowering<'_> {
    pub(super) fn block(&mut self, block: &Block) -> Value {
        self.statements(&block.stmts, block.tail.as_deref())
    }

    fn statements(&mut self, stmts: &[Stmt], tail: Option<&Expr>) -> Value {
        for (i, stmt) in stmts.iter().enumerate() {
            self.stmt(stmt);
            if self.dead {
                return Value::Never;
            }
            // what follows a `break` or `continue` runs only if it was not taken
            match self.flag(LEFT) {
                Some(left) if *self.node_at(left) != Node::Bool(false) => {
                    let rest = &stmts[i + 1..];
                    return self.branch(left, |_| Value::Never, |m| m.statements(rest, tail));
                }
                _ => {}
            }
        }
        match tail {
            Some(tail) => self.value(tail),
            None => Value::Unit,
        }
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) {
        if !self.goes_on(1) {
            return;
        }
        match stmt {
            Stmt::Let { local, init } => {
                let value = self.value(init);
                self.env.insert(*local, value);
            }
            Stmt::LetTuple { parts, init, .. } => {
                let items = match self.value(init) {
                    Value::Tuple(items) if items.len() == parts.len() => items,
                    value => (0..parts.len()).map(|i| self.part(&value, &position(i))).collect(),
                };
                for (part, value) in parts.iter().zip(items) {
                    if let Some(local) = part {
                        self.env.insert(*local, value);
                    }
                }
            }
            Stmt::Expr(e) => drop(self.value(e)),
            Stmt::Assign { local, op, value, .. } => {
                let Some(value) = self.value_that_stays(value) else { return };
                let value = match op {
                    None => value,
                    Some(op) => {
                        let current = self.env.get(local).cloned().unwrap_or(Value::Unit);
                        let (a, b) = (self.as_node(&current), self.as_node(&value));
                        Value::Node(self.operation(*op, a, b))
                    }
                };
                self.env.insert(*local, value);
            }
            Stmt::For { var, from, to, inclusive, body, .. } => self.for_loop(*var, from, to, *inclusive, body),
            Stmt::Return(value) => {
                let value = value.as_ref().map_or(Some(Value::Unit), |e| self.value_that_stays(e));
                let Some(value) = value else { return };
                if !self.dead {
                    let always = self.node(Node::Bool(true));
                    self.returns.push((always, value));
                }
                self.dead = true;
            }
            Stmt::Break | Stmt::Continue => {
                self.set_flag(LEFT, true);
                if matches!(stmt, Stmt::Break) {
                    self.set_flag(BROKEN, true);
                }
            }
            #[allow(unreachable_patterns)] // future statements fail until they are handled
            _ => self.fail(CONSTRUCT),
        }
    }

    /// The value of an expression that does not leave a step of a loop. One that may (`x = if c { break } else { 1 }`)
    /// is not followed: the statement around it would not run.
    fn value_that_stays(&mut self, e: &Expr) -> Option<Value> {
        let before = self.flag(LEFT);
        let value = self.value(e);
        if self.flag(LEFT) == before {
            return Some(value);
        }
        self.fail(CONSTRUCT);
        None
    }

    /// Joins the values of two branches, one of which runs.
    pub(super) fn branch(
        &mut self,
        c: Id,
        then: impl FnOnce(&mut Self) -> Value,
        other: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        if self.dead {
            return Value::Never;
        }
        // each branch has its own values of all locals
        if !self.goes_on(self.env.len() / 4) {
            return Value::Node(self.any());
        }
        let env = self.env.clone();
        let returns = std::mem::take(&mut self.returns);
        let a = then(self);
        let (env_a, returns_a) =
            (std::mem::replace(&mut self.env, env.clone()), std::mem::replace(&mut self.returns, returns));
        let dead_a = std::mem::take(&mut self.dead);
        for (condition, value) in returns_a {
            let condition = self.op(F::Both, vec![c, condition]);
            self.returns.push((condition, value));
        }
        let returns = std::mem::take(&mut self.returns);
        let b = other(self);
        let returns_b = std::mem::replace(&mut self.returns, returns);
        let dead_b = std::mem::take(&mut self.dead);
        let not = self.op(F::BitNot, vec![c]);
        for (condition, value) in returns_b {
            let condition = self.op(F::Both, vec![not, condition]);
            self.returns.push((condition, value));
        }
        match (dead_a, dead_b) {
            (true, true) => {
                self.dead = true;
                Value::Never
            }
            (true, false) => b,
            (false, true) => {
                self.env = env_a;
                a
            }
            (false, false) => {
                let mut locals: Vec<LocalId> = env.keys().copied().collect();
                locals.sort_unstable();
                for local in locals {
                    if let (Some(x), Some(y)) = (env_a.get(&local), self.env.get(&local).cloned()) {
                        let value = self.select(c, x, &y);
                        self.env.insert(local, value);
                    }
                }
                self.select(c, &a, &b)
            }
        }
    }

    pub(super) fn arms(&mut self, arms: &[Arm], bound: LocalId) -> Value {
        let [arm, rest @ ..] = arms else { return Value::Never };
        let subject = self.env.get(&bound).cloned().unwrap_or(Value::Unit);
        let subject = self.as_node(&subject);
        let mut condition = self.test(&arm.test, subject);
        if let Some(guard) = &arm.guard {
            if !is_pure(guard) {
                self.fail(CONSTRUCT);
            }
            let guard = self.value(guard);
            let guard = self.as_node(&guard);
            condition = self.op(F::Both, vec![condition, guard]);
        }
        if rest.is_empty() {
            return self.block(&arm.body);
        }
        self.branch(condition, |m| m.block(&arm.body), |m| m.arms(rest, bound))
    }

    /// Joins the values returned early and the value at the end.
    pub(super) fn returned(&mut self, tail: Value) -> Value {
        let mut returns = std::mem::take(&mut self.returns);
        let mut result = match tail {
            // every path has returned: the last value needs no condition
            Value::Never => returns.pop().map_or(Value::Never, |(_, value)| value),
            tail => tail,
        };
        for (condition, value) in returns.into_iter().rev() {
            result = self.select(condition, &value, &result);
        }
        result
    }

    /// `array[index]`.
    pub(super) fn element(&mut self, array: Value, index: Id) -> Value {
        let Value::Tuple(items) = array else { return self.unknown(CONSTRUCT) };
        if let Node::Int(i, _) = self.node_at(index)
            && let Some(item) = items.get(*i as usize)
        {
            return item.clone();
        }
        let mut items = items.into_iter().enumerate().rev();
        let Some((_, mut result)) = items.next() else { return self.unknown(CONSTRUCT) };
        for (i, item) in items {
            let here = self.is_at(index, i);
            result = self.select(here, &item, &result);
        }
        result
    }

    /// `array[index] op= value`.
    pub(super) fn set_element(&mut self, local: LocalId, index: Id, op: Option<Op>, value: &Value) {
        let current = self.env.get(&local).cloned().unwrap_or(Value::Unit);
        let ty = &self.function.locals[local].ty;
        let Value::Tuple(mut items) = self.spread(current, ty) else { return self.fail(CONSTRUCT) };
        let literal = match self.node_at(index) {
            Node::Int(i, _) => Some(*i),
            _ => None,
        };
        for (i, item) in items.iter_mut().enumerate().filter(|(i, _)| literal.is_none_or(|l| l == *i as u64)) {
            let new = match op {
                None => value.clone(),
                Some(op) => {
                    let (a, b) = (self.as_node(item), self.as_node(value));
                    Value::Node(self.operation(op, a, b))
                }
            };
            *item = match literal {
                Some(_) => new,
                None => {
                    let here = self.is_at(index, i);
                    self.select(here, &new, item)
                }
            };
        }
        self.env.insert(local, Value::Tuple(items));
    }

    fn is_at(&mut self, index: Id, i: usize) -> Id {
        let i = self.node(Node::Int(i as u64, None));
        self.op(F::Eq, vec![index, i])
    }
}
