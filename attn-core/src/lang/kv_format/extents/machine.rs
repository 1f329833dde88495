//! Follows a function over abstract values.

use std::cell::Cell;

use super::{Access, Function, Statement, Term, access::Row};
use crate::lang::Tristate;
use crate::lang::desc::{ConstValue, Elem};
use crate::lang::interval::parts::unknown;
use crate::lang::interval::{self, Interval, IntervalOf, Parts, Val, cast_i64, one, select, single, tristate};

/// Most steps of a loop that are followed one by one. The steps of a longer one are followed together.
const MOST_STEPS: i64 = 1 << 16;

/// The parameters of a format by name.
#[derive(Debug, Default)]
pub(super) struct Params {
    pub(super) scalars: Vec<(&'static str, Val)>,
    /// The types of elements.
    pub(super) tensors: Vec<(&'static str, Elem)>,
}

/// Why a function is refused.
#[derive(Debug)]
pub(super) enum Mistake {
    /// A call, and what it does outside of the row.
    Touches(Access, String),
    /// It is too long to be followed.
    TooLong,
}

/// A function that is being followed.
pub(super) struct Machine<'a> {
    row: Row,
    params: &'a Params,
    locals: Vec<Parts>,
    /// Whether control reaches this point.
    live: bool,
    /// The loops around.
    loops: Vec<Loop>,
    /// How many expressions may still be followed.
    terms: &'a Cell<u32>,
}

/// The variables at the ways out of a step.
#[derive(Default)]
struct Loop {
    breaks: Option<Vec<Parts>>,
    continues: Option<Vec<Parts>>,
}

/// Follows a function of a KV head (or of all between bounds), and an element or a group. `terms` is how many
/// expressions may be followed, and then how many are left.
pub(super) fn follow(
    function: &Function,
    row: Row,
    params: &Params,
    [kv_head, at]: [Val; 2],
    terms: &Cell<u32>,
) -> Result<(), Mistake> {
    let mut locals = vec![single(Val::Any); function.locals];
    for (local, value) in [(function.kv_head, kv_head), (function.at, at)] {
        if let Some(local) = local {
            locals[local] = single(value);
        }
    }
    let mut machine = Machine { row, params, locals, live: true, loops: Vec::new(), terms };
    machine.count()?;
    machine.steps(function.body)
}

impl Machine<'_> {
    fn steps(&mut self, steps: &[Statement]) -> Result<(), Mistake> {
        steps.iter().try_for_each(|step| if self.live { self.step(step) } else { Ok(()) })
    }

    fn step(&mut self, step: &Statement) -> Result<(), Mistake> {
        match step {
            Statement::Let { local, value } => self.locals[*local] = self.value(value)?,
            Statement::SetElement { local, index, value } => {
                let (index, value) = (self.scalar(index)?, self.value(value)?);
                set_element(&mut self.locals[*local], index, &value);
            }
            Statement::Eval { value } => drop(self.value(value)?),
            Statement::For { local, from, to, inclusive, body } => {
                let bounds = (self.scalar(from)?, self.scalar(to)?);
                if self.live {
                    self.loops.push(Loop::default());
                    self.for_loop(*local, bounds, *inclusive, body)?;
                    let breaks = self.loops.pop().and_then(|it| it.breaks);
                    self.merge(breaks);
                }
            }
            Statement::Return => self.live = false,
            Statement::Break | Statement::Continue => {
                if let Some(around) = self.loops.last_mut() {
                    let is_break = matches!(step, Statement::Break);
                    let way_out = if is_break { &mut around.breaks } else { &mut around.continues };
                    match way_out {
                        Some(others) => join_all(others, &self.locals),
                        None => *way_out = Some(self.locals.clone()),
                    }
                }
                self.live = false;
            }
        }
        Ok(())
    }

    /// Joins the variables of another way to this point.
    fn merge(&mut self, others: Option<Vec<Parts>>) {
        let Some(others) = others else { return };
        if self.live {
            join_all(&mut self.locals, &others);
        } else {
            (self.locals, self.live) = (others, true);
        }
    }

    fn for_loop(
        &mut self,
        local: usize,
        bounds: (Val, Val),
        inclusive: bool,
        body: &[Statement],
    ) -> Result<(), Mistake> {
        let counter = Counter::new(bounds, inclusive);
        if let Some(Counter { first, end, value, .. }) = counter
            && first.0 == first.1
            && end.0 == end.1
            && end.0 - first.0 <= MOST_STEPS
        {
            for i in first.0..end.0 {
                if self.live {
                    self.one_step(local, value(i, i), body)?;
                }
            }
            return Ok(());
        }
        let any = match counter {
            Some(Counter { first, end, .. }) if end.1 <= first.0 => return Ok(()),
            Some(Counter { first, end, value, .. }) => value(first.0, end.1 - 1),
            None => Val::Any,
        };
        // what no further step changes
        let mut before = self.locals.clone();
        for round in 0.. {
            self.one_step(local, any, body)?;
            let mut after = before.clone();
            if self.live {
                join_all(&mut after, &self.locals);
            }
            let changed: Vec<bool> = before.iter().zip(&after).map(|(a, b)| !is_same(a, b)).collect();
            if !changed.contains(&true) {
                break;
            }
            if round >= 3 {
                after.iter_mut().zip(changed).filter(|(_, changed)| *changed).for_each(|(value, _)| forget(value));
            }
            (self.locals, self.live) = (after.clone(), true);
            before = after;
        }
        (self.locals, self.live) = (before, true);
        Ok(())
    }

    fn one_step(&mut self, local: usize, counter: Val, body: &[Statement]) -> Result<(), Mistake> {
        self.locals[local] = single(counter);
        self.steps(body)?;
        let continues = self.loops.last_mut().and_then(|around| around.continues.take());
        self.merge(continues);
        Ok(())
    }

    fn count(&self) -> Result<(), Mistake> {
        self.terms.set(self.terms.get().checked_sub(1).ok_or(Mistake::TooLong)?);
        Ok(())
    }

    fn scalar(&mut self, term: &Term) -> Result<Val, Mistake> {
        Ok(one(&self.value(term)?))
    }

    fn all(&mut self, terms: &[Term]) -> Result<Vec<Parts>, Mistake> {
        terms.iter().map(|term| self.value(term)).collect()
    }

    fn value(&mut self, term: &Term) -> Result<Parts, Mistake> {
        if !self.live {
            return Ok(single(Val::Any));
        }
        self.count()?;
        Ok(match term {
            Term::Unknown { of } => {
                self.all(of)?;
                single(Val::Any)
            }
            Term::Literal { value } => single(constant(*value)),
            Term::Constant { value } => single(constant(value())),
            Term::Local { local } => self.locals[*local].clone(),
            Term::Param { name } => single(named(&self.params.scalars, name).unwrap_or(Val::Any)),
            Term::Element { name, indices } => {
                self.all(indices)?;
                // any tensor: kernels serve all of them, and plans outlive their values
                single(named(&self.params.tensors, name).map_or(Val::Any, |elem| interval::element(&Any(elem), &[])))
            }
            Term::Unary { function, of } => single(function(self.scalar(of)?)),
            Term::Binary { function, of: [a, b] } => {
                let (a, b) = (self.scalar(a)?, self.scalar(b)?);
                single(function(a, b))
            }
            Term::Helper { function, of } => function(&self.all(of)?),
            Term::Many { names, of } => Parts::Many(names.iter().copied().zip(self.all(of)?).collect()),
            Term::Repeat { names, of } => {
                let item = self.value(of)?;
                Parts::Many(names.iter().map(|name| (*name, item.clone())).collect())
            }
            Term::Index { array, index } => {
                let (array, index) = (self.value(array)?, self.scalar(index)?);
                element(array, index)
            }
            Term::Part { name, of } => interval::part(&self.value(of)?, name),
            Term::If { condition, then, other } => match tristate(self.scalar(condition)?) {
                Tristate::True => self.value(then)?,
                Tristate::False => self.value(other)?,
                Tristate::Unknown => self.either(then, other)?,
            },
            Term::Block { steps, value } => {
                self.steps(steps)?;
                self.value(value)?
            }
            Term::Dim => single(interval::of(self.row.dim as i32)),
            Term::Touch { access, of } => {
                let args = self.all(of)?;
                if !self.live {
                    return Ok(single(Val::Any));
                }
                let args: Vec<Val> = args.iter().map(one).collect();
                self.row.touch(access, &args).map_err(|what| Mistake::Touches(*access, what))?
            }
        })
    }

    /// Two terms, one of which runs.
    fn either(&mut self, then: &Term, other: &Term) -> Result<Parts, Mistake> {
        if !self.live {
            return Ok(single(Val::Any));
        }
        let before = self.locals.clone();
        let mut a = self.value(then)?;
        let after_then = std::mem::replace(&mut self.locals, before);
        let then_lives = std::mem::replace(&mut self.live, true);
        let b = self.value(other)?;
        let other_lives = self.live;
        self.merge(then_lives.then_some(after_then));
        match (then_lives, other_lives) {
            (true, true) => join(&mut a, &b),
            (true, false) => {}
            (false, _) => a = b,
        }
        Ok(a)
    }
}

/// The values of a loop's variable: bounds of the first, bounds of the end, and the values between two of them.
struct Counter {
    first: (i64, i64),
    end: (i64, i64),
    value: fn(i64, i64) -> Val,
}

impl Counter {
    fn new((from, to): (Val, Val), inclusive: bool) -> Option<Counter> {
        let bounds = |value: Val| match cast_i64(value) {
            Val::Wide(wide) if wide.known => Some((wide.lo, wide.hi)),
            _ => None,
        };
        let value: fn(i64, i64) -> Val = match (from, to) {
            (Val::I32(_), Val::I32(_)) => |lo, hi| interval::coordinate(lo as i32, hi as i32),
            // one of them may be a literal
            (Val::U32(_) | Val::I32(_), Val::U32(_)) | (Val::U32(_), Val::I32(_)) => {
                |lo, hi| Val::U32(Interval { lo: lo as u32, hi: hi as u32, known: 0, value: 0 })
            }
            (Val::U8(_) | Val::I32(_), Val::U8(_)) | (Val::U8(_), Val::I32(_)) => {
                |lo, hi| Val::U8(Interval { lo: lo as u8, hi: hi as u8, known: 0, value: 0 })
            }
            _ => return None,
        };
        let (first, end) = (bounds(from)?, bounds(to)?);
        let more = i64::from(inclusive);
        Some(Counter { first, end: (end.0 + more, end.1 + more), value })
    }
}

/// A tensor of which the type of elements is known.
struct Any(Elem);

impl IntervalOf for Any {
    fn elem(&self) -> Elem {
        self.0
    }
    fn interval_of(&self, _: &[i64], _: &[i64]) -> Option<(i64, i64)> {
        None
    }
}

fn named<T: Copy>(all: &[(&'static str, T)], name: &str) -> Option<T> {
    all.iter().find(|(there, _)| *there == name).map(|(_, value)| *value)
}

fn constant(value: ConstValue) -> Val {
    match value {
        ConstValue::I32(x) | ConstValue::Enum(_, x) => interval::of(x),
        ConstValue::U32(x) => interval::of(x),
        ConstValue::U64(x) => interval::wide(x),
        ConstValue::I64(x) => interval::wide(x),
        ConstValue::Bool(x) => interval::of(x),
        ConstValue::F32(_) => Val::Any,
    }
}

fn join_all(to: &mut [Parts], others: &[Parts]) {
    to.iter_mut().zip(others).for_each(|(a, b)| join(a, b));
}

/// Any of the values of both.
fn join(to: &mut Parts, other: &Parts) {
    match (&mut *to, other) {
        (Parts::One(a), Parts::One(b)) => *a = select(Val::Bool(Tristate::Unknown), *a, *b),
        (Parts::Many(a), Parts::Many(b)) if a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0) => {
            a.iter_mut().zip(b).for_each(|(a, b)| join(&mut a.1, &b.1));
        }
        _ => *to = single(Val::Any),
    }
}

fn is_same(a: &Parts, b: &Parts) -> bool {
    match (a, b) {
        (Parts::One(a), Parts::One(b)) => a == b,
        (Parts::Many(a), Parts::Many(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && is_same(&a.1, &b.1))
        }
        _ => false,
    }
}

/// Any value of the same types.
fn forget(value: &mut Parts) {
    match value {
        Parts::One(value) => *value = unknown(*value),
        Parts::Many(parts) => parts.iter_mut().for_each(|(_, part)| forget(part)),
        Parts::At(_) => *value = single(Val::Any),
    }
}

/// The items of an array of `len` items that an index may name.
fn items(index: Val, len: usize) -> std::ops::Range<usize> {
    let (lo, hi) = match cast_i64(index) {
        Val::Wide(wide) if wide.known => (wide.lo, wide.hi),
        _ => (0, i64::MAX),
    };
    let within = |at: i64| usize::try_from(at).unwrap_or(0).min(len);
    within(lo)..within(hi.saturating_add(1))
}

/// `array[index]`.
fn element(array: Parts, index: Val) -> Parts {
    let Parts::Many(parts) = array else { return single(Val::Any) };
    let within = items(index, parts.len());
    let mut named = parts[within].iter().map(|(_, item)| item);
    let Some(mut result) = named.next().cloned() else { return single(Val::Any) };
    named.for_each(|item| join(&mut result, item));
    result
}

/// `array[index] = value`.
fn set_element(array: &mut Parts, index: Val, value: &Parts) {
    let Parts::Many(parts) = array else { return };
    let within = items(index, parts.len());
    match &mut parts[within] {
        [(_, item)] => *item = value.clone(),
        several => several.iter_mut().for_each(|(_, item)| join(item, value)),
    }
}
