//! `logits_bound`: an upper bound on the magnitude of a transformed logit, for any logit at any position. The bound of
//! a soft cap is its cap. Where the bound is small, softmax needs no running row max (static max).
//!
//! The analysis here only shows that a bound exists. Its value is a function of scalar parameters, which the kernel
//! evaluates (`lang/logit_bound.cuh`).

use std::collections::HashMap;

use super::function::{self, Arguments};
use super::side_effects;
use super::writer::CudaWriter;
use crate::budget;
use crate::ir::{Block, Expr, Function, Kind, LocalId, Op, Stmt};
use crate::types::{Ty, Types};
use crate::visits::Visits;

/// Emits `logits_bound()` as a const member function; `None` where the transform has no bound.
pub(crate) fn bound(f: &Function, types: &Types, file: &str) -> Option<String> {
    let tail = f.body.tail.as_deref().filter(|_| f.name == "logits_transform")?;
    let mut known = BoundAnalysis { types, lets: HashMap::new(), visits: Visits::most() };
    for stmt in &f.body.stmts {
        // any other statement may change a variable, or end the function
        let Stmt::Let { local, init } = stmt else { return None };
        if side_effects::transfers_control(init) {
            return None;
        }
        if !f.locals[*local].mutable {
            known.lets.insert(*local, init);
        }
    }
    let floats = known.floats(tail);
    if side_effects::transfers_control(tail) || !floats.has_bound() {
        return None;
    }
    Some(function::derived(f, "float logits_bound", Arguments::None, (types, file), |writer| {
        write_bound(writer, &f.body, &floats);
    }))
}

/// The bounds of a float expression.
pub(super) struct FloatBound<'f> {
    made: BoundExpr<'f>,
    /// Whether it has a lower and an upper bound.
    ends: [bool; 2],
    /// Whether it is never NaN, given that parameters are numbers.
    is_number: bool,
}

/// A bound as a call into `lang/logit_bound.cuh`.
enum BoundExpr<'f> {
    Any,
    /// A value that is the same for all logits.
    One(&'f Expr),
    /// A magnitude of at most this, of either sign.
    Within(&'static str),
    Call(&'static str, Vec<FloatBound<'f>>),
}

impl<'f> FloatBound<'f> {
    fn any(is_number: bool) -> Self {
        FloatBound { made: BoundExpr::Any, ends: [false; 2], is_number }
    }

    fn within(size: &'static str) -> Self {
        FloatBound { made: BoundExpr::Within(size), ends: [true; 2], is_number: false }
    }

    fn call<const N: usize>(name: &'static str, of: [FloatBound<'f>; N], ends: [bool; 2], is_number: bool) -> Self {
        // without bounds, the operands do not matter
        if ends == [false; 2] {
            return FloatBound::any(is_number);
        }
        FloatBound { made: BoundExpr::Call(name, of.into()), ends, is_number }
    }

    fn has_bound(&self) -> bool {
        self.ends == [true; 2]
    }

    /// A function whose result is bounded where its operands are.
    fn bounded<const N: usize>(name: &'static str, of: [FloatBound<'f>; N]) -> Self {
        let ends = [of.iter().all(FloatBound::has_bound); 2];
        FloatBound::call(name, of, ends, false)
    }

    fn neg(self) -> Self {
        let (ends, is_number) = ([self.ends[1], self.ends[0]], self.is_number);
        FloatBound::call("neg", [self], ends, is_number)
    }

    fn abs(self) -> Self {
        let (ends, is_number) = ([true, self.has_bound()], self.is_number);
        FloatBound::call("abs", [self], ends, is_number)
    }

    /// The reciprocal; the bound holds only for a value whose lower bound turns out to be above 0.
    fn recip(self) -> Self {
        let ends = [self.ends[0]; 2];
        FloatBound::call("recip", [self], ends, false)
    }

    fn exp(self, name: &'static str) -> Self {
        let (ends, is_number) = ([true, self.ends[1]], self.is_number);
        FloatBound::call(name, [self], ends, is_number)
    }

    fn add(self, other: Self) -> Self {
        let ends = [self.ends[0] && other.ends[0], self.ends[1] && other.ends[1]];
        FloatBound::call("add", [self, other], ends, false)
    }

    fn either(self, other: Self) -> Self {
        let ends = [self.ends[0] && other.ends[0], self.ends[1] && other.ends[1]];
        let is_number = self.is_number && other.is_number;
        FloatBound::call("join", [self, other], ends, is_number)
    }

    /// The lesser of two values (`end` 1) or the greater (`end` 0). A number bounds the result at that end. A NaN does
    /// not: `min` and `max` return the other operand.
    fn extreme(self, other: Self, name: &'static str, end: usize) -> Self {
        let bounds = |floats: &Self| floats.is_number && floats.ends[end];
        let (a, number) = match (bounds(&self), bounds(&other)) {
            (_, true) => (self, other),
            (true, _) => (other, self),
            _ => return self.either(other),
        };
        let mut ends = [a.ends[0] && number.ends[0], a.ends[1] && number.ends[1]];
        ends[end] = true;
        FloatBound::call(name, [a, number], ends, true)
    }
}

/// Bounds of the expressions of one function.
struct BoundAnalysis<'f> {
    types: &'f Types,
    /// Initialisers of the immutable locals.
    lets: HashMap<LocalId, &'f Expr>,
    visits: Visits,
}

impl<'f> BoundAnalysis<'f> {
    fn floats(&self, e: &'f Expr) -> FloatBound<'f> {
        if self.visits.next().is_none() {
            return FloatBound::any(false);
        }
        if self.is_uniform(e) {
            return FloatBound { made: BoundExpr::One(e), ends: [true; 2], is_number: true };
        }
        let is_float = self.types.settled(&e.ty) == Ty::F32;
        match &e.kind {
            Kind::Local(local) if self.lets.contains_key(local) => self.floats(self.lets[local]),
            Kind::Block(block) => self.block(block),
            Kind::If { then, other: Some(other), .. } => self.block(then).either(self.block(other)),
            Kind::Neg(inner) if is_float => self.floats(inner).neg(),
            Kind::Binary(op, a, b) if is_float => self.binary(*op, a, b),
            Kind::Call(name, args) if is_float => self.call(name, args),
            Kind::Cast(inner, _) => FloatBound::any(self.types.settled(&inner.ty).is_int()),
            _ => FloatBound::any(false),
        }
    }

    fn block(&self, block: &'f Block) -> FloatBound<'f> {
        match &block.tail {
            Some(tail) if block.stmts.is_empty() => self.floats(tail),
            _ => FloatBound::any(false),
        }
    }

    fn binary(&self, op: Op, a: &'f Expr, b: &'f Expr) -> FloatBound<'f> {
        let (x, y) = (self.floats(a), self.floats(b));
        match op {
            Op::Add => x.add(y),
            Op::Sub => x.add(y.neg()),
            Op::Mul => FloatBound::bounded("mul", [x, y]),
            Op::Div => FloatBound::bounded("mul", [x, y.recip()]),
            _ => FloatBound::any(false),
        }
    }

    fn call(&self, name: &str, args: &'f [Expr]) -> FloatBound<'f> {
        let of = |i: usize| self.floats(&args[i]);
        match name {
            "tanh" | "erf" | "sin" | "cos" | "signum" => FloatBound::within("1.0f"),
            // one instruction, with a relative error of 2^-11
            "approx_tanh" => FloatBound::within("1.0005f"),
            "exp" | "approx_exp" => of(0).exp("exp"),
            "exp2" => of(0).exp("exp2"),
            "abs" => of(0).abs(),
            "min" => of(0).extreme(of(1), "at_most", 1),
            "max" => of(0).extreme(of(1), "at_least", 0),
            // `clamp` returns NaN for NaN
            "clamp" => FloatBound { is_number: false, ..of(1).either(of(2)) },
            "mul_add" => FloatBound::bounded("mul", [of(0), of(1)]).add(of(2)),
            _ => FloatBound::any(false),
        }
    }

    /// Whether an expression reads only scalar parameters and constants.
    fn is_uniform(&self, e: &Expr) -> bool {
        // a local may be used twice at each level
        if !budget::spend(1) {
            return false;
        }
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

/// Writes a body that returns the greatest magnitude.
fn write_bound(writer: &mut CudaWriter<'_>, body: &Block, floats: &FloatBound<'_>) {
    let mut read = Vec::new();
    floats.variables(&mut read);
    let is_read = |stmt: &&Stmt, read: &[LocalId]| matches!(stmt, Stmt::Let { local, .. } if read.contains(local));
    for stmt in body.stmts.iter().rev() {
        if !budget::spend(read.len() / 8) {
            return;
        }
        if let Stmt::Let { init, .. } = stmt
            && is_read(&stmt, &read)
        {
            variables(init, &mut read);
        }
    }
    for stmt in body.stmts.iter().filter(|stmt| is_read(stmt, &read)) {
        writer.stmt(stmt);
    }
    let floats = written(writer, floats);
    writer.line(&format!("return bound::magnitude({floats});"));
}

fn written(writer: &mut CudaWriter<'_>, floats: &FloatBound<'_>) -> String {
    match &floats.made {
        BoundExpr::Any => "bound::any()".to_owned(),
        BoundExpr::One(e) => format!("bound::exactly({})", writer.value(e)),
        BoundExpr::Within(size) => format!("bound::within({size})"),
        BoundExpr::Call(name, of) => {
            let of: Vec<_> = of.iter().map(|floats| written(writer, floats)).collect();
            format!("bound::{name}({})", of.join(", "))
        }
    }
}

impl FloatBound<'_> {
    /// Collects the locals that a bound reads.
    fn variables(&self, read: &mut Vec<LocalId>) {
        match &self.made {
            BoundExpr::One(e) => variables(e, read),
            BoundExpr::Call(_, of) => of.iter().for_each(|floats| floats.variables(read)),
            BoundExpr::Any | BoundExpr::Within(_) => {}
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
