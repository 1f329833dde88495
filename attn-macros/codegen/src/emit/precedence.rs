//! C++ expressions as text, and the precedence of operators.

use crate::ir::Op;

pub(super) const TERNARY: u8 = 1;
pub(super) const OR_ELSE: u8 = 2;
pub(super) const AND_ALSO: u8 = 3;
pub(super) const BITS: u8 = 4;
pub(super) const COMPARE: u8 = 5;
pub(super) const SHIFT: u8 = 6;
pub(super) const SUM: u8 = 7;
pub(super) const PRODUCT: u8 = 8;
pub(super) const UNARY: u8 = 9;
pub(super) const ATOM: u8 = 10;

pub(super) fn precedence(op: Op) -> u8 {
    match op {
        Op::OrElse => OR_ELSE,
        Op::AndAlso => AND_ALSO,
        Op::And | Op::Or | Op::Xor => BITS,
        Op::Shl | Op::Shr => SHIFT,
        Op::Add | Op::Sub => SUM,
        Op::Mul | Op::Div | Op::Rem => PRODUCT,
        _ => COMPARE,
    }
}

/// The least precedence of an operand: bit operators and shifts take atoms and unary operands only, for readability.
pub(super) fn operand_precedence(precedence: u8) -> u8 {
    if matches!(precedence, BITS | SHIFT) { UNARY } else { precedence }
}

/// The text of an expression, and the precedence of its outermost operator.
pub(super) struct CppExpr {
    pub(super) text: String,
    pub(super) precedence: u8,
}

impl CppExpr {
    pub(super) fn atom(text: impl Into<String>) -> CppExpr {
        CppExpr { text: text.into(), precedence: ATOM }
    }

    /// The text as an operand that must have at least this precedence; parentheses are added where it has not.
    pub(super) fn at_least(self, precedence: u8) -> String {
        if self.precedence >= precedence { self.text } else { format!("({})", self.text) }
    }
}

/// `name[index]`; `[[` would begin a C++ attribute.
pub(super) fn subscript(name: &str, index: &str) -> String {
    if index.starts_with('[') { format!("{name}[({index})]") } else { format!("{name}[{index}]") }
}

/// The shortest decimal that reads back as the same f32.
pub(super) fn float(x: f32) -> CppExpr {
    let text = match x.is_infinite() {
        true => if x > 0.0 { "F32_INFINITY" } else { "-F32_INFINITY" }.to_owned(),
        false => format!("{x:?}f"),
    };
    CppExpr { precedence: if text.starts_with('-') { UNARY } else { ATOM }, text }
}
