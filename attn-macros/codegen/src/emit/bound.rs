//! How large the result of a logits transform can be, whatever the logit and wherever it is: a soft cap's is its cap. Where that is small, weights need no running maximum.
//!
//! Bounds are made of scalar parameters alone, and known when a kernel runs (`lang/logit_bound.cuh`); what is found here is that there are some.

use std::collections::HashMap;

use super::{Derived, Used, Writer, function_of, leave};
use crate::{
    ir::{Block, Expr, Function, Kind, LocalId, Op, Stmt},
    report::Report,
    types::{Ty, Types},
};

/// `logits_bound()` as a const member function; nothing where the transform has no bound.
pub(crate) fn bound(f: &Function, types: &Types, file: &str) -> Option<String> {
    let tail = f.body.tail.as_deref().filter(|_| f.name == "logits_transform")?;
    let mut known = Known { types, lets: HashMap::new() };
    for stmt in &f.body.stmts {
        // anything else may change a variable, or end the function
        let Stmt::Let { local, init } = stmt else { return None };
        if leave::escapes(init) {
            return None;
        }
        if !f.locals[*local].mutable {
            known.lets.insert(*local, init);
        }
    }
    let floats = known.floats(tail);
    if leave::escapes(tail) || !floats.has_bound() {
        return None;
    }
    let (used, report) = (&mut Used::default(), &mut Report::default());
    let head = ["ATTN_FN float logits_bound", " const"];
    Some(function_of(f, head, types, file, used, report, Some(Derived::Bound(&floats))))
}

/// What is known of a float.
pub(super) struct Floats<'f> {
    made: Made<'f>,
    /// Whether it has a least value, and a greatest.
    ends: [bool; 2],
    /// Whether it is never NaN, parameters being numbers.
    is_number: bool,
}

/// How bounds are made, in terms of `lang/logit_bound.cuh`.
enum Made<'f> {
    Any,
    /// The same for all logits.
    One(&'f Expr),
    /// Up to so much, of either sign.
    Within(&'static str),
    Call(&'static str, Vec<Floats<'f>>),
}

impl<'f> Floats<'f> {
    fn any(is_number: bool) -> Self {
        Floats { made: Made::Any, ends: [false; 2], is_number }
    }

    fn within(size: &'static str) -> Self {
        Floats { made: Made::Within(size), ends: [true; 2], is_number: false }
    }

    fn call<const N: usize>(name: &'static str, of: [Floats<'f>; N], ends: [bool; 2], is_number: bool) -> Self {
        // where nothing is known, what it was made of does not matter
        if ends == [false; 2] {
            return Floats::any(is_number);
        }
        Floats { made: Made::Call(name, of.into()), ends, is_number }
    }

    fn has_bound(&self) -> bool {
        self.ends == [true; 2]
    }

    /// A function that has bounds where its operands have them.
    fn bounded<const N: usize>(name: &'static str, of: [Floats<'f>; N]) -> Self {
        let ends = [of.iter().all(Floats::has_bound); 2];
        Floats::call(name, of, ends, false)
    }

    fn neg(self) -> Self {
        let (ends, is_number) = ([self.ends[1], self.ends[0]], self.is_number);
        Floats::call("neg", [self], ends, is_number)
    }

    fn abs(self) -> Self {
        let (ends, is_number) = ([true, self.has_bound()], self.is_number);
        Floats::call("abs", [self], ends, is_number)
    }

    /// Of a value that turns out to be above 0.
    fn recip(self) -> Self {
        let ends = [self.ends[0]; 2];
        Floats::call("recip", [self], ends, false)
    }

    fn exp(self, name: &'static str) -> Self {
        let (ends, is_number) = ([true, self.ends[1]], self.is_number);
        Floats::call(name, [self], ends, is_number)
    }

    fn add(self, other: Self) -> Self {
        let ends = [self.ends[0] && other.ends[0], self.ends[1] && other.ends[1]];
        Floats::call("add", [self, other], ends, false)
    }

    fn either(self, other: Self) -> Self {
        let ends = [self.ends[0] && other.ends[0], self.ends[1] && other.ends[1]];
        let is_number = self.is_number && other.is_number;
        Floats::call("either", [self, other], ends, is_number)
    }

    /// The lesser of two (`end` 1) or the greater (0). A number bounds it at that end; NaN does not, it gives way to the other operand.
    fn extreme(self, other: Self, name: &'static str, end: usize) -> Self {
        let bounds = |floats: &Self| floats.is_number && floats.ends[end];
        let (a, number) = match (bounds(&self), bounds(&other)) {
            (_, true) => (self, other),
            (true, _) => (other, self),
            _ => return self.either(other),
        };
        let mut ends = [a.ends[0] && number.ends[0], a.ends[1] && number.ends[1]];
        ends[end] = true;
        Floats::call(name, [a, number], ends, true)
    }
}

/// What is known of variables.
struct Known<'f> {
    types: &'f Types,
    /// What those are that never change.
    lets: HashMap<LocalId, &'f Expr>,
}

impl<'f> Known<'f> {
    fn floats(&self, e: &'f Expr) -> Floats<'f> {
        if self.is_uniform(e) {
            return Floats { made: Made::One(e), ends: [true; 2], is_number: true };
        }
        let is_float = self.types.settled(&e.ty) == Ty::F32;
        match &e.kind {
            Kind::Local(local) if self.lets.contains_key(local) => self.floats(self.lets[local]),
            Kind::Block(block) => self.block(block),
            Kind::If { then, other: Some(other), .. } => self.block(then).either(self.block(other)),
            Kind::Neg(inner) if is_float => self.floats(inner).neg(),
            Kind::Binary(op, a, b) if is_float => self.binary(*op, a, b),
            Kind::Call(name, args) if is_float => self.call(name, args),
            Kind::Cast(inner, _) => Floats::any(self.types.settled(&inner.ty).is_int()),
            _ => Floats::any(false),
        }
    }

    fn block(&self, block: &'f Block) -> Floats<'f> {
        match &block.tail {
            Some(tail) if block.stmts.is_empty() => self.floats(tail),
            _ => Floats::any(false),
        }
    }

    fn binary(&self, op: Op, a: &'f Expr, b: &'f Expr) -> Floats<'f> {
        let (x, y) = (self.floats(a), self.floats(b));
        match op {
            Op::Add => x.add(y),
            Op::Sub => x.add(y.neg()),
            Op::Mul => Floats::bounded("mul", [x, y]),
            Op::Div => Floats::bounded("mul", [x, y.recip()]),
            _ => Floats::any(false),
        }
    }

    fn call(&self, name: &str, args: &'f [Expr]) -> Floats<'f> {
        let of = |i: usize| self.floats(&args[i]);
        match name {
            "tanh" | "sin" | "cos" | "signum" => Floats::within("1.0f"),
            // one instruction, to a relative 2^-11
            "approx_tanh" => Floats::within("1.0005f"),
            "exp" | "approx_exp" => of(0).exp("exp"),
            "exp2" => of(0).exp("exp2"),
            "abs" => of(0).abs(),
            "min" => of(0).extreme(of(1), "at_most", 1),
            "max" => of(0).extreme(of(1), "at_least", 0),
            // a NaN stays one
            "clamp" => Floats { is_number: false, ..of(1).either(of(2)) },
            "mul_add" => Floats::bounded("mul", [of(0), of(1)]).add(of(2)),
            _ => Floats::any(false),
        }
    }

    /// Whether only scalar parameters and constants are read.
    fn is_uniform(&self, e: &Expr) -> bool {
        let (exprs, blocks) = e.children();
        let block = |b: &Block| b.stmts.is_empty() && b.tail.iter().all(|e| self.is_uniform(e));
        match &e.kind {
            Kind::Local(local) => self.lets.get(local).is_some_and(|init| self.is_uniform(init)),
            Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) | Kind::Param(_) | Kind::Const(_) => true,
            Kind::Builtin(_) | Kind::NegInfinity | Kind::Variant { .. } => true,
            Kind::Neg(_) | Kind::Not(_) | Kind::Binary(..) | Kind::Cast(..) | Kind::Call(..) => {
                exprs.into_iter().all(|e| self.is_uniform(e))
            }
            Kind::Field(..) | Kind::If { .. } | Kind::Block(_) => {
                exprs.into_iter().all(|e| self.is_uniform(e)) && blocks.into_iter().all(block)
            }
            _ => false,
        }
    }
}

impl Writer<'_> {
    /// A body that gives the greatest magnitude.
    pub(super) fn bound(&mut self, body: &Block, floats: &Floats<'_>) {
        let mut read = Vec::new();
        floats.variables(&mut read);
        let is_read = |stmt: &&Stmt, read: &[LocalId]| matches!(stmt, Stmt::Let { local, .. } if read.contains(local));
        for stmt in body.stmts.iter().rev() {
            if let Stmt::Let { init, .. } = stmt
                && is_read(&stmt, &read)
            {
                variables(init, &mut read);
            }
        }
        for stmt in body.stmts.iter().filter(|stmt| is_read(stmt, &read)) {
            self.stmt(stmt);
        }
        let floats = self.floats(floats);
        self.line(&format!("return bound::magnitude({floats});"));
    }

    fn floats(&mut self, floats: &Floats<'_>) -> String {
        match &floats.made {
            Made::Any => "bound::any()".to_owned(),
            Made::One(e) => format!("bound::one({})", self.value(e)),
            Made::Within(size) => format!("bound::within({size})"),
            Made::Call(name, of) => {
                let of: Vec<_> = of.iter().map(|floats| self.floats(floats)).collect();
                format!("bound::{name}({})", of.join(", "))
            }
        }
    }
}

impl Floats<'_> {
    /// Variables that are read where it is made.
    fn variables(&self, read: &mut Vec<LocalId>) {
        match &self.made {
            Made::One(e) => variables(e, read),
            Made::Call(_, of) => of.iter().for_each(|floats| floats.variables(read)),
            Made::Any | Made::Within(_) => {}
        }
    }
}

fn variables(e: &Expr, read: &mut Vec<LocalId>) {
    if let Kind::Local(local) = e.kind {
        read.push(local);
    }
    let (exprs, blocks) = e.children();
    exprs.into_iter().chain(blocks.iter().filter_map(|block| block.tail.as_deref())).for_each(|e| variables(e, read));
}
