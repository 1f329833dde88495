//! `logits_slope`: the slope of a bias that is affine in the key's position. Kernels then evaluate the bias once per
//! row instead of once per logit.

use std::collections::HashMap;

use super::function::{self, Arguments};
use super::logit_factor::logit_of;
use super::logits_bias;
use super::precedence::{CppExpr, UNARY};
use super::writer::CudaWriter;
use crate::ir::{Block, Expr, Function, Kind, LocalId, Op, Part, Stmt};
use crate::types::{Ty, Types};
use crate::visits::Visits;

/// Coordinates of a `LogitIndex` that differ between keys. The first two grow by 1 from a key to the next.
const OF_KEYS: [&str; 4] = ["kv_pos", "kv_token", "kv_slot", "kv_step"];

/// Emits `logits_slope(LogitIndex at)` as a const member function; `None` where the transform does more than add, or
/// the added term is not provably affine.
pub(crate) fn slope(f: &Function, types: &Types, file: &str) -> Option<String> {
    let logit = logit_of(f)?;
    let added = logits_bias::added(&f.body, logit)?;
    let slope = KeyDependence::of(f, types)?.slope(added.term)?;
    Some(function::derived(f, "float logits_slope", Arguments::AfterLogit, (types, file), |writer| {
        logits_bias::write_added(writer, &f.body, added.negated, |w| slope_value(w, &slope));
    }))
}

/// The increase of an expression from a key to the next, which is the same for every key.
pub(super) enum Slope<'f> {
    None,
    One,
    Negated(Box<Slope<'f>>),
    Sum(Box<Slope<'f>>, Box<Slope<'f>>),
    /// A factor that does not depend on the key, times a slope.
    Times(&'f Expr, Box<Slope<'f>>),
    /// A slope divided by a float that does not depend on the key.
    Over(Box<Slope<'f>>, &'f Expr),
}

/// Which locals of a transform depend on the key.
pub(super) struct KeyDependence<'f> {
    types: &'f Types,
    /// Initialisers of the locals that depend on the key.
    of_keys: HashMap<LocalId, &'f Expr>,
    visits: Visits,
}

impl<'f> KeyDependence<'f> {
    /// `None` where a loop, or a mutable local, may depend on the key in a way that is not analysed.
    pub(super) fn of(f: &'f Function, types: &'f Types) -> Option<Self> {
        let mut known = KeyDependence { types, of_keys: HashMap::new(), visits: Visits::most() };
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
        self.visits.next()?;
        if !self.needs_key(e) {
            return Some(Slope::None);
        }
        let of = |e| Some(Box::new(self.slope(e)?));
        let float = |e: &Expr| self.types.settled(&e.ty) == Ty::F32;
        Some(match &e.kind {
            Kind::Coordinate(_, word) if OF_KEYS[..2].contains(&word.as_str()) => Slope::One,
            Kind::Local(local) => self.slope(self.of_keys.get(local)?)?,
            Kind::Neg(inner) => Slope::Negated(of(inner)?),
            Kind::Cast(inner, to) if self.types.settled(to) == Ty::F32 => self.slope(inner)?,
            Kind::Binary(Op::Add, a, b) => Slope::Sum(of(a)?, of(b)?),
            Kind::Binary(Op::Sub, a, b) if !self.needs_key(b) => self.slope(a)?,
            Kind::Binary(Op::Sub, a, b) => Slope::Sum(of(a)?, Box::new(Slope::Negated(of(b)?))),
            Kind::Binary(Op::Mul, a, b) if !self.needs_key(a) => Slope::Times(a, of(b)?),
            Kind::Binary(Op::Mul, a, b) if !self.needs_key(b) => Slope::Times(b, of(a)?),
            Kind::Binary(Op::Div, a, b) if float(a) && !self.needs_key(b) => Slope::Over(of(a)?, b),
            Kind::Block(Block { stmts, tail: Some(tail), .. }) if stmts.is_empty() => self.slope(tail)?,
            _ => return None,
        })
    }

    /// Whether an expression reads a coordinate of the key, or may do so in a way that is not analysed.
    pub(super) fn needs_key(&self, e: &Expr) -> bool {
        Part::Expr(e).any(&mut |part| match part {
            // statements are not analysed
            Part::Stmt(_) => Some(true),
            Part::Expr(e) => match &e.kind {
                Kind::Coordinate(_, word) => Some(OF_KEYS.contains(&word.as_str())),
                Kind::Local(local) => Some(self.of_keys.contains_key(local)),
                Kind::Closure { .. } | Kind::Match { .. } => Some(true),
                _ => None,
            },
        })
    }
}

fn slope_value(writer: &mut CudaWriter<'_>, slope: &Slope<'_>) -> CppExpr {
    let combined = |text: String| CppExpr::atom(format!("({text})"));
    match slope {
        Slope::None => CppExpr::atom("0.0f"),
        Slope::One => CppExpr::atom("1.0f"),
        Slope::Negated(of) => combined(format!("-{}", slope_value(writer, of).at_least(UNARY))),
        Slope::Sum(a, b) => match (&**a, &**b) {
            (Slope::None, only) | (only, Slope::None) => slope_value(writer, only),
            _ => combined(format!("{} + {}", slope_value(writer, a).text, slope_value(writer, b).text)),
        },
        Slope::Times(factor, of) => {
            let factor = format!("float({})", writer.value(factor));
            match **of {
                Slope::One => CppExpr::atom(factor),
                _ => combined(format!("{factor} * {}", slope_value(writer, of).text)),
            }
        }
        Slope::Over(of, divisor) => {
            combined(format!("{} / float({})", slope_value(writer, of).text, writer.value(divisor)))
        }
    }
}
