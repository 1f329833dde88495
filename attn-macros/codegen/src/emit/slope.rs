//! What a logits transform adds that is affine in the key: by how much it grows from a key to the next. Kernels then ask for it once a row instead of for every logit.

use std::collections::HashMap;

use super::{Derived, Used, Writer, bias::Added, function_of, operator::UNARY, value::Text};
use crate::{
    ir::{Block, Expr, Function, Kind, LocalId, Op, Stmt},
    report::Report,
    types::{Ty, Types},
};

/// Words of a `LogitIndex` that are another for the next key. The first two are one more.
const OF_KEYS: [&str; 4] = ["kv_pos", "kv_token", "kv_slot", "kv_step"];

/// `logits_slope(LogitIndex at)` as a const member function; nothing where the transform does more than to add, or what it adds is not proven to be affine.
pub(crate) fn slope(f: &Function, types: &Types, file: &str) -> Option<String> {
    let logit = super::factor::logit_of(f)?;
    let added = super::bias::added(&f.body, logit)?;
    let slope = Known::of(f, types)?.slope(added.term)?;
    let head = "ATTN_FN float logits_slope";
    let (used, report) = (&mut Used::default(), &mut Report::default());
    let added = Added { slope: Some(slope), ..added };
    Some(function_of(f, [head, " const"], types, file, used, report, Some(Derived::Added(&added))))
}

/// By how much an expression grows from a key to the next: the same for every key.
pub(super) enum Slope<'f> {
    None,
    One,
    Negated(Box<Slope<'f>>),
    Sum(Box<Slope<'f>>, Box<Slope<'f>>),
    /// Times what does not depend on the key.
    Times(&'f Expr, Box<Slope<'f>>),
    /// Over a float that does not.
    Over(Box<Slope<'f>>, &'f Expr),
}

/// What is known of variables.
pub(super) struct Known<'f> {
    types: &'f Types,
    /// Those that depend on the key, by what they are.
    of_keys: HashMap<LocalId, &'f Expr>,
}

impl<'f> Known<'f> {
    /// Of those of a transform; nothing where a loop, or a variable that changes, may make anything of a key.
    pub(super) fn of(f: &'f Function, types: &'f Types) -> Option<Self> {
        let mut known = Known { types, of_keys: HashMap::new() };
        for stmt in &f.body.stmts {
            let Stmt::Let { local, init } = stmt else { return None };
            if known.needs_key(init) {
                if f.locals[*local].mutable {
                    return None;
                }
                known.of_keys.insert(*local, init);
            }
        }
        Some(known)
    }

    fn slope(&self, e: &'f Expr) -> Option<Slope<'f>> {
        if !self.needs_key(e) {
            return Some(Slope::None);
        }
        let of = |e| Some(Box::new(self.slope(e)?));
        let float = |e: &Expr| self.types.settled(&e.ty) == Ty::F32;
        Some(match &e.kind {
            Kind::Word(_, word) if OF_KEYS[..2].contains(&word.as_str()) => Slope::One,
            Kind::Local(local) => self.slope(self.of_keys.get(local)?)?,
            Kind::Neg(inner) => Slope::Negated(of(inner)?),
            Kind::Cast(inner, to) if self.types.settled(to) == Ty::F32 => self.slope(inner)?,
            Kind::Binary(Op::Add, a, b) => Slope::Sum(of(a)?, of(b)?),
            Kind::Binary(Op::Sub, a, b) if !self.needs_key(b) => self.slope(a)?,
            Kind::Binary(Op::Sub, a, b) => Slope::Sum(of(a)?, Box::new(Slope::Negated(of(b)?))),
            Kind::Binary(Op::Mul, a, b) if !self.needs_key(a) => Slope::Times(a, of(b)?),
            Kind::Binary(Op::Mul, a, b) if !self.needs_key(b) => Slope::Times(b, of(a)?),
            Kind::Binary(Op::Div, a, b) if float(a) && !self.needs_key(b) => Slope::Over(of(a)?, b),
            Kind::Block(Block { stmts, tail: Some(tail) }) if stmts.is_empty() => self.slope(tail)?,
            _ => return None,
        })
    }

    /// Whether a key's words are read; or something that may read them in a way that is not followed here.
    pub(super) fn needs_key(&self, e: &Expr) -> bool {
        let (exprs, blocks) = e.children();
        match &e.kind {
            Kind::Word(_, word) => OF_KEYS.contains(&word.as_str()),
            Kind::Local(local) => self.of_keys.contains_key(local),
            Kind::Closure { .. } | Kind::Match { .. } => true,
            _ => {
                let block = |b: &Block| !b.stmts.is_empty() || b.tail.iter().any(|e| self.needs_key(e));
                exprs.into_iter().any(|e| self.needs_key(e)) || blocks.into_iter().any(block)
            }
        }
    }
}

impl Writer<'_> {
    pub(super) fn slope(&mut self, slope: &Slope<'_>) -> Text {
        let combined = |text: String| Text::atom(format!("({text})"));
        match slope {
            Slope::None => Text::atom("0.0f"),
            Slope::One => Text::atom("1.0f"),
            Slope::Negated(of) => combined(format!("-{}", self.slope(of).at_least(UNARY))),
            Slope::Sum(a, b) => match (&**a, &**b) {
                (Slope::None, only) | (only, Slope::None) => self.slope(only),
                _ => combined(format!("{} + {}", self.slope(a).text, self.slope(b).text)),
            },
            Slope::Times(factor, of) => {
                let factor = format!("float({})", self.value(factor));
                match **of {
                    Slope::One => Text::atom(factor),
                    _ => combined(format!("{factor} * {}", self.slope(of).text)),
                }
            }
            Slope::Over(of, divisor) => combined(format!("{} / float({})", self.slope(of).text, self.value(divisor))),
        }
    }
}
