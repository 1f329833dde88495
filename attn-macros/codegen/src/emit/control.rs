//! Values with branches or statements inside: `?:` where that is enough, lambdas elsewhere.

use super::cpp_type::{spelled, spelled_or_auto};
use super::precedence::{AND_ALSO, BITS, COMPARE, CppExpr, OR_ELSE, SHIFT, TERNARY, UNARY};
use super::writer::CudaWriter;
use super::{divide, side_effects};
use crate::ir::{Arm, Block, Expr, Kind, LocalId, Test};
use crate::types::Ty;
use crate::{literals, messages};

impl CudaWriter<'_> {
    /// Writes the subject of a `match` in place of its local, where it is immutable and as short.
    pub(super) fn alias(&mut self, subject: &Expr, bound: LocalId) -> bool {
        match &subject.kind {
            Kind::Local(local) if *local == bound => true,
            Kind::Param(_) | Kind::Coordinate(..) => {
                divide::record_compared(self, subject);
                let text = self.value(subject);
                self.aliases.insert(bound, text);
                true
            }
            _ => false,
        }
    }

    pub(super) fn if_value(&mut self, e: &Expr, cond: &Expr, then: &Block, other: Option<&Block>) -> CppExpr {
        let (Some(a), Some(b)) = (single_value(then), other.and_then(single_value)) else {
            return self.called_lambda(e, |w, ret| w.tail(e, ret));
        };
        let cond = self.text(cond).at_least(OR_ELSE);
        let (a, b) = (self.text(a).at_least(OR_ELSE), self.text(b).at_least(TERNARY));
        CppExpr { text: format!("{cond} ? {a} : {b}"), precedence: TERNARY }
    }

    pub(super) fn match_value(&mut self, e: &Expr, subject: &Expr, bound: usize, arms: &[Arm]) -> CppExpr {
        if !self.alias(subject, bound) || arms.iter().any(|arm| single_value(&arm.body).is_none()) {
            return self.called_lambda(e, |w, ret| w.tail(e, ret));
        }
        let mut text = String::new();
        for (i, arm) in arms.iter().enumerate() {
            let Some(value) = single_value(&arm.body) else {
                continue;
            };
            let value = self.text(value).at_least(OR_ELSE);
            match self.arm_condition(arm, bound) {
                Some(cond) if i + 1 < arms.len() => text.push_str(&format!("{cond} ? {value} : ")),
                _ => {
                    text.push_str(&value);
                    break;
                }
            }
        }
        CppExpr { text, precedence: TERNARY }
    }

    /// The condition of a match arm; `None` when it always matches.
    pub(super) fn arm_condition(&mut self, arm: &Arm, bound: usize) -> Option<String> {
        let test = self.test(&arm.test, bound);
        let guard = arm.guard.as_ref().map(|g| self.text(g));
        match (test, guard) {
            (None, None) => None,
            (Some(test), None) => Some(test.text),
            (None, Some(guard)) => Some(guard.at_least(OR_ELSE)),
            (Some(test), Some(guard)) => Some(format!("{} && {}", test.at_least(AND_ALSO), guard.at_least(AND_ALSO))),
        }
    }

    fn test(&mut self, test: &Test, bound: usize) -> Option<CppExpr> {
        let subject = self.name(bound);
        match test {
            Test::Always => None,
            Test::Equal(e) => Some(match e.kind {
                Kind::Bool(true) => CppExpr::atom(subject),
                Kind::Bool(false) => CppExpr { text: format!("!{subject}"), precedence: UNARY },
                _ => {
                    let value = self.text(e).at_least(SHIFT);
                    CppExpr { text: format!("{subject} == {value}"), precedence: COMPARE }
                }
            }),
            Test::Range { from, to, inclusive } => {
                let from = from.as_ref().map(|e| format!("{subject} >= {}", self.value(e)));
                let op = if *inclusive { "<=" } else { "<" };
                let to = to.as_ref().map(|e| format!("{subject} {op} {}", self.value(e)));
                match (from, to) {
                    (Some(a), Some(b)) => Some(CppExpr { text: format!("{a} && {b}"), precedence: AND_ALSO }),
                    (Some(a), None) | (None, Some(a)) => Some(CppExpr { text: a, precedence: COMPARE }),
                    (None, None) => None,
                }
            }
            Test::Any(tests) => {
                let mut all = Vec::new();
                for test in tests {
                    all.push(self.test(test, bound)?.at_least(BITS));
                }
                Some(CppExpr { text: all.join(" || "), precedence: OR_ELSE })
            }
        }
    }

    /// A lambda that is called at once, for a value that needs statements.
    pub(super) fn called_lambda(&mut self, e: &Expr, f: impl FnOnce(&mut Self, &Ty)) -> CppExpr {
        if side_effects::transfers_control(e) {
            self.report.at(e.span, messages::RETURN_IN_VALUE);
        } else if side_effects::assigns_outer_local(e) {
            self.report.at(e.span, messages::CHANGE_IN_VALUE);
        }
        let ret = self.settled(&e.ty);
        let arrow = spelled(&ret, self.types).map(|t| format!("() -> {t}")).unwrap_or_default();
        if arrow.is_empty() {
            // C++ deduces one type for all branches: a literal among typed values would have another
            let values = literals::values(e);
            if let Some(literal) = values.iter().find(|v| literals::is_made_of_literals(v))
                && !values.iter().all(|v| literals::is_made_of_literals(v))
            {
                self.report.at(literal.span, messages::UNTYPED_LITERAL);
            }
        }
        let body = self.nested_text(|w| f(w, &ret));
        let close = "  ".repeat(self.indent);
        CppExpr::atom(format!("[&]{arrow} {{\n{body}{close}}}()"))
    }

    pub(super) fn lambda(&mut self, params: &str, ret: &Ty, body: &Block) -> CppExpr {
        let arrow = spelled_or_auto(ret, self.types);
        if let Some(value) = single_value(body)
            && !matches!(value.kind, Kind::If { .. } | Kind::Match { .. })
        {
            let value = self.value(value);
            return CppExpr::atom(format!("[&]({params}) -> {arrow} {{ return {value}; }}"));
        }
        let body = self.nested_text(|w| w.body(body, ret));
        let close = "  ".repeat(self.indent);
        CppExpr::atom(format!("[&]({params}) -> {arrow} {{\n{body}{close}}}"))
    }
}

/// The value of a block that has no statements.
pub(super) fn single_value(block: &Block) -> Option<&Expr> {
    let tail = block.tail.as_deref().filter(|_| block.stmts.is_empty())?;
    match &tail.kind {
        Kind::Block(inner) => single_value(inner),
        Kind::If { then, other, .. } => {
            single_value(then)?;
            single_value(other.as_ref()?)?;
            Some(tail)
        }
        Kind::Match { .. } | Kind::Diverge(_) => None,
        _ => Some(tail),
    }
}
