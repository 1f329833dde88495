//! Products with a logit, and with the distance of a key.
//!
//! Both are computed once a logit, billions of times, and both hide a factor or a term that is the same for many: a logit comes
//! out of the tensor cores unscaled, and of the position of a key all but a constant is the same for a whole tile. As `Logit` and
//! `KeyDistance` (lang/types.cuh, lang/coordinates.cuh) they meet a factor before they become numbers.

use super::{Writer, operator::UNARY, value::Text};
use crate::{
    ir::{Expr, Function, Kind, LocalId, Op},
    types::Ty,
};

/// The logit of a transform, unless the hook changes it in place.
pub(super) fn logit_of(f: &Function) -> Option<LocalId> {
    let (local, _) = f.args.first().filter(|_| f.name == "logits_transform")?;
    local.filter(|local| !f.locals[*local].mutable)
}

impl Writer<'_> {
    /// The operands of a plain operator, one of them as a factor of its own kind where it is one.
    pub(super) fn factors(&mut self, op: Op, a: &Expr, b: &Expr) -> (Text, Text) {
        let is_factor = |w: &Self, e: &Expr| w.settled(&e.ty) == Ty::F32;
        if matches!(op, Op::Mul | Op::Div) && is_factor(self, a) && is_factor(self, b) {
            if let Some(a) = self.factor(op, a) {
                return (a, self.text(b));
            }
            if op == Op::Mul
                && let Some(b) = self.factor(op, b)
            {
                return (self.text(a), b);
            }
        }
        (self.text(a), self.text(b))
    }

    /// A term of a sum: a factor times a distance as `KeyTerm`, which has yet to become a float; all else as a float.
    pub(super) fn term(&mut self, e: &Expr) -> Text {
        if let Kind::Binary(Op::Mul, a, b) = &e.kind {
            for (factor, distance) in [(a, b), (b, a)] {
                if let Kind::Cast(inner, Ty::F32) = &distance.kind
                    && let Some(distance) = self.distance(inner)
                {
                    let factor = self.value(factor);
                    return Text::atom(format!("KeyTerm({factor}, {})", distance.text));
                }
            }
        }
        let value = self.value(e);
        Text::atom(format!("float({value})"))
    }

    fn factor(&mut self, op: Op, e: &Expr) -> Option<Text> {
        match &e.kind {
            Kind::Local(local) if Some(*local) == self.logit => Some(Text::atom(self.name(*local))),
            Kind::Cast(inner, Ty::F32) if op == Op::Mul => self.distance(inner),
            _ => None,
        }
    }

    /// `at.kv_pos - a`, `a - at.kv_pos` or `at.kv_pos`, that become a float.
    pub(super) fn distance(&mut self, e: &Expr) -> Option<Text> {
        let of = |w: &Self, e: &Expr| match &e.kind {
            Kind::Word(local, word) if word == "kv_pos" && w.is_logit_index(*local) => Some(w.name(*local)),
            _ => None,
        };
        if let Some(at) = of(self, e) {
            return Some(Text::atom(format!("{at}.kv_pos_minus(0)")));
        }
        let Kind::Binary(Op::Sub, a, b) = &e.kind else { return None };
        if !self.is_plain(Op::Sub, a, b) {
            return None;
        }
        if let Some(at) = of(self, a) {
            let b = self.value(b);
            return Some(Text::atom(format!("{at}.kv_pos_minus({b})")));
        }
        let at = of(self, b)?;
        let a = self.value(a);
        Some(Text { text: format!("-{at}.kv_pos_minus({a})"), level: UNARY })
    }

    fn is_logit_index(&self, local: LocalId) -> bool {
        self.settled(&self.function.locals[local].ty) == Ty::LogitIndex
    }
}
