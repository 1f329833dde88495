//! Lowers loops: those over literals are unrolled, others run over abstract values when a tile is classified.

use super::effects::Changes;
use super::interval_fn::IntervalFn as F;
use super::lowering::{CONSTRUCT, LOOP, Lowering, Value};
use super::normal_form::{Id, Loop, Node};
use crate::ir::{Block, Expr, Kind, LocalId};
use crate::types::Ty;

/// Most steps of a loop that is unrolled; as many run over abstract values (`interval::repeated`).
const MOST_STEPS: u64 = 64;

/// Most loops within each other that run over abstract values: their steps multiply, for every tile.
const MOST_LOOPS: usize = 2;

/// Locals of the lowering: whether a step, and the loop, is left by `break` or `continue`.
pub(super) const LEFT: LocalId = LocalId::MAX;
pub(super) const BROKEN: LocalId = LocalId::MAX - 1;
/// Whether the loop has returned, and what.
const RETURNED: LocalId = LocalId::MAX - 2;
const RESULT: LocalId = LocalId::MAX - 3;

impl Lowering<'_> {
    pub(super) fn flag(&mut self, flag: LocalId) -> Option<Id> {
        match self.env.get(&flag) {
            Some(Value::Node(id)) => Some(*id),
            _ => None,
        }
    }

    pub(super) fn set_flag(&mut self, flag: LocalId, to: bool) {
        let to = self.node(Node::Bool(to));
        self.env.insert(flag, Value::Node(to));
    }

    pub(super) fn for_loop(&mut self, var: LocalId, from: &Expr, to: &Expr, inclusive: bool, body: &Block) {
        let literal = |e: &Expr| match e.kind {
            Kind::Int(n) => Some(n),
            _ => None,
        };
        let steps = literal(from).zip(literal(to)).map(|(a, b)| a..b + u64::from(inclusive));
        let steps = steps.filter(|steps| steps.end.saturating_sub(steps.start) <= MOST_STEPS);
        const FLAGS: [LocalId; 4] = [LEFT, BROKEN, RETURNED, RESULT];
        // a loop around has flags of its own
        let around = FLAGS.map(|flag| self.env.remove(&flag));
        let bounds = [from, to].map(|bound| self.value(bound));
        match steps {
            Some(steps) => self.unrolled(var, from, steps, body),
            None => self.repeated(var, from, bounds, inclusive, body),
        }
        for (flag, value) in FLAGS.into_iter().zip(around) {
            self.env.remove(&flag);
            self.env.extend(value.map(|value| (flag, value)));
        }
    }

    fn unrolled(&mut self, var: LocalId, from: &Expr, steps: std::ops::Range<u64>, body: &Block) {
        self.set_flag(BROKEN, false);
        for i in steps {
            let step = Expr { kind: Kind::Int(i), ty: from.ty.clone(), span: from.span };
            let value = self.value(&step);
            self.env.insert(var, value);
            self.step(body);
            if self.dead || self.failed {
                return;
            }
        }
    }

    /// One step, unless the loop is broken.
    fn step(&mut self, body: &Block) {
        if !self.goes_on(1) {
            return;
        }
        self.set_flag(LEFT, false);
        let Some(broken) = self.flag(BROKEN) else { return self.fail(CONSTRUCT) };
        self.unless(broken, body);
        self.set_flag(LEFT, false);
    }

    fn unless(&mut self, condition: Id, body: &Block) {
        match *self.node_at(condition) {
            Node::Bool(true) => {}
            Node::Bool(false) => drop(self.block(body)),
            _ => drop(self.branch(condition, |_| Value::Unit, |m| m.block(body))),
        }
    }

    /// A loop whose bounds are known when a tile is classified: one step over nodes that stand for its variable and for
    /// the values that it changes.
    fn repeated(&mut self, var: LocalId, from: &Expr, bounds: [Value; 2], inclusive: bool, body: &Block) {
        let mut changed = Changes::default();
        changed.block(body);
        if changed.unknown {
            return self.fail(CONSTRUCT);
        }
        let result = typed(&self.types.settled(&self.function.ret));
        // the variable has the type of a parameter, which is one of 32 bits
        let ty = self.types.settled(&from.ty);
        let counts =
            matches!(ty, Ty::I32 | Ty::U32) || (self.types.is_external_int(&ty) && !self.types.may_be_wide(&ty));
        if self.loops_around == MOST_LOOPS || !counts || (changed.returns && result.is_none()) {
            return self.forget(&changed);
        }
        let number = self.loops;
        self.loops += 1;
        let mut states: Vec<(LocalId, F)> = Vec::new();
        changed.locals.sort_unstable();
        changed.locals.dedup();
        for &local in &changed.locals {
            // a local of the body has no value before it
            if !self.env.contains_key(&local) {
                continue;
            }
            match typed(&self.types.settled(&self.function.locals[local].ty)) {
                Some(ty) => states.push((local, ty)),
                // unknown in the loop, and after it
                None => {
                    let unknown = self.unknown(LOOP);
                    self.env.insert(local, unknown);
                }
            }
        }
        self.set_flag(BROKEN, false);
        if changed.leaves {
            states.push((BROKEN, F::Truth));
        }
        if changed.returns {
            self.set_flag(RETURNED, false);
            // which value stands here does not matter until the loop returns: that of a `return` loses least
            let first = self.node(Node::Bool(returns_true(body)));
            self.env.insert(RESULT, Value::Node(first));
            states.extend([(RETURNED, F::Truth), (RESULT, result.unwrap_or(F::Truth))]);
        }
        let [from, to] = bounds.map(|bound| self.as_node(&bound));
        let mut ids = vec![from, to];
        for (k, (local, _)) in states.iter().enumerate() {
            let value = self.env.get(local).cloned().unwrap_or(Value::Unit);
            ids.push(self.as_node(&value));
            let state = self.node(Node::LoopState(number, k));
            self.env.insert(*local, Value::Node(state));
        }
        let i = self.node(Node::LoopVar(number));
        self.env.insert(var, Value::Node(i));
        self.loops_around += 1;
        self.step_that_may_return(body, changed.returns);
        self.loops_around -= 1;
        for (local, _) in &states {
            let value = self.env.get(local).cloned().unwrap_or(Value::Unit);
            ids.push(self.as_node(&value));
        }
        for local in &changed.locals {
            if !states.iter().any(|(state, _)| state == local) && self.env.contains_key(local) {
                let unknown = self.unknown(LOOP);
                self.env.insert(*local, unknown);
            }
        }
        let types = states.iter().map(|(_, ty)| *ty).collect();
        let done = self.node(Node::Loop(Loop { number, inclusive, types, ids }));
        for (k, (local, _)) in states.iter().enumerate() {
            let out = self.node(Node::LoopOut(done, k));
            self.env.insert(*local, Value::Node(out));
        }
        if changed.returns {
            let [returned, result] = [RETURNED, RESULT].map(|flag| self.env.remove(&flag));
            if let (Some(Value::Node(returned)), Some(result)) = (returned, result) {
                self.returns.push((returned, result));
            }
        }
    }

    /// One step, unless the loop is broken or has returned. A return sets `RETURNED` and `RESULT`.
    fn step_that_may_return(&mut self, body: &Block, returns: bool) {
        if !returns {
            return self.step(body);
        }
        let (Some(broken), Some(before)) = (self.flag(BROKEN), self.flag(RETURNED)) else { return };
        let over = self.op(F::Either, vec![broken, before]);
        let (around, env) = (std::mem::take(&mut self.returns), self.env.clone());
        self.set_flag(LEFT, false);
        self.unless(over, body);
        let dead = std::mem::take(&mut self.dead);
        if dead {
            // every path of the body has returned
            self.env = env;
        }
        self.set_flag(LEFT, false);
        let (mut returned, mut result) = (before, self.env.get(&RESULT).cloned().unwrap_or(Value::Unit));
        let now = std::mem::replace(&mut self.returns, around);
        for (condition, value) in now.into_iter().rev() {
            returned = self.op(F::Either, vec![condition, returned]);
            result = self.select(condition, &value, &result);
        }
        self.env.insert(RETURNED, Value::Node(returned));
        self.env.insert(RESULT, result);
    }

    /// Skips a loop: the locals that it changes become unknown, and so does whether it returns.
    fn forget(&mut self, changed: &Changes) {
        let unknown = self.unknown(LOOP);
        for &local in &changed.locals {
            self.env.insert(local, unknown.clone());
        }
        if changed.returns {
            let any = self.any();
            self.returns.push((any, unknown));
        }
    }
}

/// The function that makes a value one of this type.
fn typed(ty: &Ty) -> Option<F> {
    Some(match ty {
        Ty::I32 => F::CastI32,
        Ty::U32 => F::CastU32,
        Ty::U8 => F::CastU8,
        Ty::Bool => F::Truth,
        _ => return None,
    })
}

/// Whether the first `return` of a loop is `return true`.
fn returns_true(body: &Block) -> bool {
    use crate::ir::{Part, Stmt};
    let mut first = None;
    for part in body.parts() {
        part.any(&mut |part| {
            if let (Part::Stmt(Stmt::Return(Some(e))), None) = (part, first) {
                first = Some(matches!(e.kind, Kind::Bool(true)));
            }
            None
        });
    }
    first == Some(true)
}
