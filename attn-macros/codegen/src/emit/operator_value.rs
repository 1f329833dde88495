//! Operators and casts: plain C++ operators where they match Rust's semantics, functions of lang/lang.cuh elsewhere.

use super::cpp_type::spelled;
use super::interval::positive;
use super::precedence::{
    AND_ALSO, ATOM, BITS, COMPARE, CppExpr, OR_ELSE, SHIFT, UNARY, float, operand_precedence, precedence,
};
use super::writer::CudaWriter;
use super::{array, divide, logit_factor};
use crate::ir::{Expr, Kind, Op, Part};
use crate::types::Ty;

impl CudaWriter<'_> {
    pub(super) fn negation(&mut self, e: &Expr, inner: &Expr) -> CppExpr {
        let ty = self.settled(&e.ty);
        let (least, most) = if ty == Ty::I64 { (i64::MIN, i64::MAX) } else { (i32::MIN.into(), i32::MAX.into()) };
        if let Kind::Int(n) = inner.kind
            && n == least.unsigned_abs()
        {
            return CppExpr::atom(if ty == Ty::I64 { "I64_MIN" } else { "I32_MIN" });
        }
        let fits = |(low, high)| low > least && high <= most;
        let plain = ty == Ty::F32 || matches!(inner.kind, Kind::Int(_)) || self.intervals.of(inner).is_some_and(fits);
        let text = self.text(inner);
        if plain {
            // avoids `--x`
            let operand = if text.text.starts_with('-') { format!("({})", text.text) } else { text.at_least(UNARY) };
            CppExpr { text: format!("-{operand}"), precedence: UNARY }
        } else {
            CppExpr::atom(format!("{}neg({})", self.prefix, text.text))
        }
    }

    pub(super) fn complement(&mut self, inner: &Expr) -> CppExpr {
        let operator = match self.settled(&inner.ty) {
            Ty::Bool => "!",
            Ty::I32 | Ty::U32 | Ty::U64 | Ty::I64 => "~",
            _ => {
                let inner = self.value(inner);
                return CppExpr::atom(format!("{}bit_not({inner})", self.prefix));
            }
        };
        let inner = self.text(inner).at_least(UNARY);
        CppExpr { text: format!("{operator}{inner}"), precedence: UNARY }
    }

    pub(super) fn cast(&mut self, inner: &Expr, to: &Ty) -> CppExpr {
        let from = self.settled(&inner.ty);
        if from == *to || from == Ty::Usize && *to == Ty::I32 {
            return self.text(inner);
        }
        if *to == Ty::Usize {
            return array::as_index(self, inner);
        }
        if let (Kind::Int(n), Ty::F32) = (&inner.kind, to) {
            return float(*n as f32);
        }
        if *to == Ty::F32
            && let Some(distance) = logit_factor::key_distance(self, inner)
        {
            return CppExpr::atom(format!("float({})", distance.text));
        }
        let name = spelled(to, self.types).unwrap_or_default();
        let value = self.value(inner);
        // int to float rounds as in Rust, and casts between integers wrap as in Rust; float to int does not saturate in
        // C++
        let plain = *to == Ty::F32 || from.is_int() || from == Ty::Bool || matches!(from, Ty::Device(_));
        let short = if name == "int" { "i32" } else { &name };
        CppExpr::atom(if plain { format!("{name}({value})") } else { format!("{}cast_{short}({value})", self.prefix) })
    }

    /// The function in place of `*` or `/` of floats, in a text that gives the same bits on every device: a compiler
    /// may fuse an operator with a sum. A type that the macro cannot see may be f32.
    pub(super) fn rounded(&self, op: Op, ty: &Ty) -> Option<&'static str> {
        let function = match op {
            Op::Mul => "mul_rn",
            Op::Div => "div_rn",
            _ => return None,
        };
        (self.exact && matches!(self.settled(ty), Ty::F32 | Ty::Var(_))).then_some(function)
    }

    /// `place op value`, for a place whose text is an atom.
    pub(super) fn combined(&mut self, op: Op, target: &Expr, text: &str, value: &Expr) -> String {
        if let Some((function, by)) = divide::by_parameter(self, op, target, value) {
            return format!("{function}({text}, {by})");
        }
        let plain = self.is_plain(op, target, value);
        let value = self.text(value);
        if let Some(function) = self.rounded(op, &target.ty) {
            return format!("{}{function}({text}, {})", self.prefix, value.text);
        }
        if !plain {
            return format!("{}{}({text}, {})", self.prefix, op.function(), value.text);
        }
        let value = value.at_least(operand_precedence(precedence(op)).max(precedence(op) + 1));
        let text = format!("{text} {} {value}", op.symbol());
        if self.settled(&target.ty) == Ty::Bool { format!("bool({text})") } else { text }
    }

    /// `a.wrapping_add(b)` of unsigned integers, whose plain operators wrap.
    pub(super) fn wrapping(&mut self, name: &str, args: &[Expr]) -> Option<CppExpr> {
        let op = match name {
            "wrapping_add" => Op::Add,
            "wrapping_sub" => Op::Sub,
            "wrapping_mul" => Op::Mul,
            _ => return None,
        };
        let [a, b] = args else { return None };
        matches!(self.settled(&a.ty), Ty::U32 | Ty::U64).then(|| self.binary(op, a, b))
    }

    pub(super) fn binary(&mut self, op: Op, a: &Expr, b: &Expr) -> CppExpr {
        if let Some((function, by)) = divide::by_parameter(self, op, a, b) {
            let a = self.value(a);
            return CppExpr::atom(format!("{function}({a}, {by})"));
        }
        if op.is_comparison() {
            divide::record_compared(self, a);
            divide::record_compared(self, b);
        }
        if let Some(function) = self.rounded(op, &a.ty) {
            let (a, b) = (self.value(a), self.value(b));
            return CppExpr::atom(format!("{}{function}({a}, {b})", self.prefix));
        }
        let op = without_branch(op, b);
        let plain = self.is_plain(op, a, b);
        let is_bool = matches!(op, Op::And | Op::Or | Op::Xor) && self.settled(&a.ty) == Ty::Bool;
        let (a, b) = if plain { logit_factor::factors(self, op, a, b) } else { (self.text(a), self.text(b)) };
        if !plain {
            return CppExpr::atom(format!("{}{}({}, {})", self.prefix, op.function(), a.text, b.text));
        }
        let precedence = precedence(op);
        // a left operand of the same operator takes no parentheses; bit operators are never mixed without them
        let mixes = |t: &CppExpr| match precedence {
            BITS | SHIFT | COMPARE => t.precedence == precedence,
            OR_ELSE => t.precedence == AND_ALSO,
            _ => false,
        };
        let [a, b] = if is_bool { [a, b].map(without_conversion) } else { [a, b] };
        let left = if mixes(&a) { format!("({})", a.text) } else { a.at_least(operand_precedence(precedence)) };
        let right = if mixes(&b) {
            format!("({})", b.text)
        } else {
            b.at_least(operand_precedence(precedence).max(precedence + 1))
        };
        let text = format!("{left} {} {right}", op.symbol());
        if is_bool { CppExpr::atom(format!("bool({text})")) } else { CppExpr { text, precedence } }
    }

    /// Whether C++'s operator has the semantics of Rust's for these operands.
    pub(super) fn is_plain(&self, op: Op, a: &Expr, b: &Expr) -> bool {
        let ty = self.settled(&a.ty);
        let bits = if matches!(ty, Ty::U64 | Ty::I64) { 64 } else { 32 };
        let shift_fits = matches!(b.kind, Kind::Int(n) if n < bits);
        let unsigned = matches!(ty, Ty::U32 | Ty::U64);
        let signed = matches!(ty, Ty::I32 | Ty::I64);
        match op {
            _ if op.is_comparison() || op.is_logical() => true,
            _ if ty == Ty::Usize => true,
            Op::Add | Op::Sub | Op::Mul => ty == Ty::F32 || unsigned || signed && self.intervals.never_wraps(op, a, b),
            Op::Div => ty == Ty::F32 || (unsigned || signed) && positive(b),
            Op::Rem => (unsigned || signed) && positive(b),
            Op::Shl => unsigned && shift_fits,
            Op::Shr => (unsigned || signed) && shift_fits,
            _ => unsigned || signed || ty == Ty::Bool,
        }
    }
}

/// `&` and `|` in place of `&&` and `||` where the right side is a few operations on coordinates. A branch, or what
/// compilers make of one, costs more than such a side in a mask, which is evaluated for each element of a tile. A side
/// of parameters alone is the same for all elements, and stays.
fn without_branch(op: Op, right: &Expr) -> Op {
    match op {
        Op::AndAlso if is_cheap_condition(right) => Op::And,
        Op::OrElse if is_cheap_condition(right) => Op::Or,
        _ => op,
    }
}

/// Whether a condition compares coordinates and scalars, and neither loads, divides nor calls anything.
fn is_cheap_condition(e: &Expr) -> bool {
    const MOST_OPERATIONS: usize = 8;
    let (mut operations, mut coordinates) = (0, 0);
    let costs = Part::Expr(e).any(&mut |part| {
        let Part::Expr(Expr { kind, ty, .. }) = part else { return Some(true) };
        match kind {
            // `usize` is an `int` in the text, whose overflow the left side may rule out
            Kind::Binary(op, ..) if !op.is_comparison() && *ty == Ty::Usize => return Some(true),
            Kind::Int(_) | Kind::Float(_) | Kind::Bool(_) | Kind::Local(_) | Kind::Param(_) | Kind::Const(_) => {}
            Kind::Coordinate(..) => coordinates += 1,
            Kind::Neg(_) | Kind::Not(_) => operations += 1,
            Kind::Binary(op, ..) if !matches!(op, Op::Div | Op::Rem | Op::Shl | Op::Shr) => operations += 1,
            _ => return Some(true),
        }
        None
    });
    !costs && coordinates > 0 && operations <= MOST_OPERATIONS
}

/// An operand of a bit operator: without the conversion that makes a `bool` of bits.
fn without_conversion(e: CppExpr) -> CppExpr {
    match e.text.strip_prefix("bool(").and_then(|text| text.strip_suffix(')')) {
        Some(bits) if e.precedence == ATOM => CppExpr { text: bits.into(), precedence: BITS },
        _ => e,
    }
}
