//! Operators of C++, and how tightly they bind.

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

pub(super) fn level(op: Op) -> u8 {
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

/// Under `||`, `&&` gets parentheses; bit operators and shifts take atoms and unary operands only.
pub(super) fn operand_level(level: u8) -> u8 {
    if matches!(level, BITS | SHIFT) { UNARY } else { level }
}

pub(super) fn operator(op: Op) -> &'static str {
    match op {
        Op::Add => "+",
        Op::Sub => "-",
        Op::Mul => "*",
        Op::Div => "/",
        Op::Rem => "%",
        Op::Shl => "<<",
        Op::Shr => ">>",
        Op::And => "&",
        Op::Or => "|",
        Op::Xor => "^",
        Op::Lt => "<",
        Op::Le => "<=",
        Op::Gt => ">",
        Op::Ge => ">=",
        Op::Eq => "==",
        Op::Ne => "!=",
        Op::AndAlso => "&&",
        Op::OrElse => "||",
    }
}

pub(super) fn function(op: Op) -> &'static str {
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
        // always plain
        _ => "",
    }
}
