//! Follows indices through a function, in the order of its text.

use super::found::{Condition, Deferred, Found, Refusal};
use super::value::{Index, Origin, Value, are_of_query_and_key, mixed, on_axes, same, word};
use crate::budget;
use crate::ir::{Block, Expr, Function, Kind, LocalId, Op, Stmt};
use crate::report::{Report, SpanRange};
use crate::types::Ty;

pub(super) struct Evaluator<'a> {
    body: &'a Block,
    /// What each local may be: all values that it ever takes.
    locals: Vec<Option<Value>>,
    /// What the function may return.
    result: Option<Value>,
    /// Whether a `return` leaves a closure.
    in_closure: bool,
    found: Found,
    report: &'a mut Report,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(f: &'a Function, report: &'a mut Report) -> Self {
        let mut locals = vec![None; f.locals.len()];
        let is_hook = crate::hook::NAMES.contains(&f.name.as_str());
        for (n, arg) in f.args.iter().enumerate() {
            if let Some(local) = arg.local {
                let is_number = arg.ty.is_int() || arg.ty == Ty::F32;
                locals[local] = Some(if is_number && !is_hook { Value::arg(n) } else { Value::Any });
            }
        }
        Evaluator { body: &f.body, locals, result: None, in_closure: false, found: Found::default(), report }
    }

    pub(super) fn run(mut self) -> Found {
        let value = self.block(self.body);
        let result = match self.result.take() {
            Some(returned) if self.body.tail.is_none() => returned,
            Some(returned) => returned.or(value),
            None => value,
        };
        match result {
            Value::Parts(parts) => {
                for (part, (_, value)) in parts.iter().enumerate() {
                    self.returns(part, value);
                }
            }
            value => self.returns(0, &value),
        }
        self.found
    }

    /// Notes that a part of the result is an argument.
    fn returns(&mut self, part: usize, value: &Value) {
        if let Value::Index(Index { of: Origin::Arg(arg), scaled, conditions, .. }) = value
            && conditions.is_empty()
        {
            self.found.summary.returned.push((part, *arg, *scaled));
        }
    }

    fn block(&mut self, block: &Block) -> Value {
        for stmt in &block.stmts {
            self.stmt(stmt);
        }
        let value = block.tail.as_deref().map_or(Value::Any, |tail| self.expr(tail));
        if block.plain { Value::Any } else { value }
    }

    fn assign(&mut self, local: LocalId, value: Value) {
        let before = self.locals[local].take();
        self.locals[local] = Some(match before {
            Some(before) => before.or(value).bounded(),
            None => value,
        });
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let { local, init } => {
                let value = self.expr(init);
                self.assign(*local, value);
            }
            Stmt::LetTuple { parts, whole, init } => {
                let value = self.expr(init);
                for (n, part) in parts.iter().enumerate() {
                    if let Some(local) = part {
                        self.assign(*local, value.clone().part(&n.to_string()));
                    }
                }
                self.assign(*whole, value);
            }
            Stmt::Expr(e) => {
                self.expr(e);
            }
            Stmt::Assign { local, op, value, span } => {
                let mut value = self.expr(value);
                if let Some(op) = op {
                    let before = self.local(*local);
                    value = self.operation(*op, before, value, *span);
                }
                self.assign(*local, value);
            }
            Stmt::For { var, from, to, body, .. } => {
                let (from, to) = (self.expr(from), self.expr(to));
                // a range from a number to a length or index counts anything
                let value = if from == Value::Literal && to != Value::Literal { Value::Any } else { from.or(to) };
                self.assign(*var, value);
                self.block(body);
            }
            Stmt::Return(value) => {
                let value = value.as_ref().map_or(Value::Any, |value| self.expr(value));
                if !self.in_closure {
                    self.result = Some(match self.result.take() {
                        Some(before) => before.or(value),
                        None => value,
                    });
                }
            }
            Stmt::Break | Stmt::Continue => {}
        }
    }

    fn local(&self, local: LocalId) -> Value {
        self.locals[local].clone().unwrap_or(Value::Any)
    }

    fn expr(&mut self, e: &Expr) -> Value {
        if !budget::spend(1) {
            return Value::Any;
        }
        self.value(e).bounded()
    }

    fn value(&mut self, e: &Expr) -> Value {
        match &e.kind {
            Kind::Int(_) | Kind::Float(_) | Kind::Const(_) => Value::Literal,
            Kind::Param(_) => Value::Scalar,
            Kind::Local(local) => self.local(*local),
            Kind::Coordinate(_, text) => word(text).map_or(Value::Any, Value::word),
            Kind::Cast(inner, _) => self.expr(inner),
            Kind::Neg(inner) => match self.expr(inner) {
                number @ (Value::Literal | Value::Scalar) => number,
                _ => Value::Any,
            },
            Kind::Binary(op, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                self.operation(*op, a, b, e.span)
            }
            Kind::Call(name, args) => {
                let values = args.iter().map(|arg| self.expr(arg)).collect();
                self.method(name, values, e.span)
            }
            Kind::Helper(name, args) | Kind::HelperOf(name, _, args) => {
                let args = args.iter().map(|arg| self.expr(arg)).collect();
                self.helper(name, args, e.span)
            }
            Kind::Element(tensor, indices) => {
                self.element(tensor, indices);
                Value::Any
            }
            Kind::Store { name, index, value, .. } => {
                self.element(name, index);
                self.expr(value);
                Value::Any
            }
            Kind::Tuple(items) => {
                let parts = items.iter().enumerate().map(|(n, item)| (n.to_string(), self.expr(item)));
                Value::Parts(parts.collect())
            }
            Kind::Struct { base, fields, .. } => {
                let base = base.as_deref().map(|base| self.expr(base));
                let mut parts: Vec<_> = fields.iter().map(|(name, e)| (name.clone(), self.expr(e))).collect();
                if let Some(Value::Parts(rest)) = base {
                    // what is given comes first, and is found first
                    parts.extend(rest);
                }
                Value::Parts(parts)
            }
            Kind::TupleField(inner, n) => self.expr(inner).part(&n.to_string()),
            Kind::Field(inner, name) => self.expr(inner).part(name),
            Kind::Array(items) => items.iter().map(|item| self.expr(item)).reduce(Value::or).unwrap_or(Value::Any),
            Kind::Repeat(item, _) => self.expr(item),
            Kind::Index(array, index) => {
                self.expr(index);
                self.expr(array)
            }
            Kind::SetElement { local, index, op, value } => {
                self.expr(index);
                let value = self.expr(value);
                self.assign(*local, if op.is_some() { Value::Any } else { value });
                Value::Any
            }
            Kind::If { cond, then, other } => {
                self.expr(cond);
                let then = self.branch(then);
                let other = other.as_ref().and_then(|other| self.branch(other));
                then.into_iter().chain(other).reduce(Value::or).unwrap_or(Value::Any)
            }
            Kind::Match { subject, bound, arms } => {
                let subject = self.expr(subject);
                if self.locals[*bound].is_none() {
                    self.locals[*bound] = Some(subject);
                }
                let mut values = Vec::new();
                for arm in arms {
                    if let Some(guard) = &arm.guard {
                        self.expr(guard);
                    }
                    values.extend(self.branch(&arm.body));
                }
                values.into_iter().reduce(Value::or).unwrap_or(Value::Any)
            }
            Kind::Block(block) => self.block(block),
            Kind::Closure { body, .. } => {
                let around = std::mem::replace(&mut self.in_closure, true);
                self.block(body);
                self.in_closure = around;
                Value::Any
            }
            Kind::Diverge(stmt) => {
                self.stmt(stmt);
                Value::Any
            }
            _ => {
                e.children().0.into_iter().for_each(|e| {
                    self.expr(e);
                });
                Value::Any
            }
        }
    }

    /// The value of a branch; `None` where it leaves.
    fn branch(&mut self, block: &Block) -> Option<Value> {
        let value = self.block(block);
        let leaves = match block.tail.as_deref() {
            Some(tail) => matches!(tail.kind, Kind::Diverge(_)),
            None => matches!(block.stmts.last(), Some(Stmt::Return(_) | Stmt::Break | Stmt::Continue)),
        };
        (!leaves).then_some(value)
    }

    fn operation(&mut self, op: Op, a: Value, b: Value, span: SpanRange) -> Value {
        match op {
            Op::Add => a.plus(b),
            Op::Sub => {
                self.relate(&a, &b, true, span);
                a.minus(&b)
            }
            Op::Mul if a == Value::Literal => b.times(&a),
            Op::Mul | Op::Div | Op::Shl | Op::Shr => a.times(&b),
            _ if op.is_comparison() => {
                self.relate(&a, &b, false, span);
                Value::Any
            }
            _ => Value::Any,
        }
    }

    fn method(&mut self, name: &str, mut values: Vec<Value>, span: SpanRange) -> Value {
        if values.is_empty() {
            return Value::Any;
        }
        let a = values.remove(0);
        match (name, &values[..]) {
            ("min" | "max" | "clamp", bounds) => {
                bounds.iter().for_each(|b| self.relate(&a, b, false, span));
                a.within(bounds)
            }
            ("wrapping_add" | "saturating_add", [b]) => self.operation(Op::Add, a, b.clone(), span),
            ("wrapping_sub" | "saturating_sub", [b]) => self.operation(Op::Sub, a, b.clone(), span),
            ("abs_diff", [b]) => {
                self.relate(&a, b, true, span);
                Value::Any
            }
            ("wrapping_mul" | "saturating_mul" | "wrapping_div" | "div_euclid", [b]) => a.times(b),
            _ => Value::Any,
        }
    }

    /// Two values that are compared, or subtracted.
    fn relate(&mut self, a: &Value, b: &Value, subtracts: bool, span: SpanRange) {
        for a in a.indices() {
            for b in b.indices() {
                if same(&a, &b) {
                    continue;
                }
                let conditions = [&a.conditions[..], &b.conditions].concat();
                match (a.of, b.of) {
                    (Origin::Word(x), Origin::Word(y)) if !subtracts || are_of_query_and_key(x, y) => {
                        self.refuse(conditions, Refusal::Mixed(mixed(x, y)), span);
                    }
                    (Origin::Arg(x), Origin::Arg(y)) if conditions.is_empty() => {
                        let summary = &mut self.found.summary;
                        let pairs = if subtracts { &mut summary.subtracted } else { &mut summary.compared };
                        let pair = (x.min(y), x.max(y));
                        if !pairs.contains(&pair) {
                            pairs.push(pair);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn helper(&mut self, name: &str, args: Vec<Value>, span: SpanRange) -> Value {
        // each pair of arguments is compared
        if !budget::spend(args.len() * args.len() / 16) {
            return Value::Any;
        }
        let indices: Vec<_> = args.iter().map(Value::indices).collect();
        for (b, of_b) in indices.iter().enumerate() {
            for (a, of_a) in indices[..b].iter().enumerate() {
                for (x, y) in of_a.iter().flat_map(|x| of_b.iter().map(move |y| (x, y))) {
                    let (Origin::Word(of_x), Origin::Word(of_y)) = (x.of, y.of) else { continue };
                    if same(x, y) {
                        continue;
                    }
                    let subtracts = are_of_query_and_key(of_x, of_y);
                    let relates = Condition::Relates { helper: name.to_owned(), a, b, subtracts };
                    let conditions = [&x.conditions[..], &y.conditions, &[relates]].concat();
                    self.refuse(conditions, Refusal::Mixed(mixed(of_x, of_y)), span);
                }
            }
        }
        match indices.iter().all(Vec::is_empty) {
            true => Value::Any,
            false => Value::Result { helper: name.to_owned(), part: 0, args, scaled: false, shifted: false },
        }
    }

    fn element(&mut self, tensor: &str, indices: &[Expr]) {
        for (axis, index) in indices.iter().enumerate() {
            let value = self.expr(index);
            for of in value.indices() {
                if let Origin::Word(word) = of.of {
                    let refusal = Refusal::Axis { tensor: tensor.to_owned(), axis, messages: on_axes(tensor, word) };
                    self.refuse(of.conditions, refusal, index.span);
                }
            }
        }
    }

    fn refuse(&mut self, conditions: Vec<Condition>, refusal: Refusal, span: SpanRange) {
        match refusal {
            Refusal::Mixed(message) if conditions.is_empty() => self.report.at(span, message),
            refusal => {
                let known = |there: &Deferred| there.conditions == conditions && there.refusal == refusal;
                if !self.found.deferred.iter().any(known) {
                    self.found.deferred.push(Deferred { conditions, refusal, span });
                }
            }
        }
    }
}
