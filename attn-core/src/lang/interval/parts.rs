//! Values with parts over a tile, and loops whose bounds are known when a tile is classified. In kernels both are in
//! `attn-kernels/cuda/lang/interval_parts.cuh`.

use super::super::{Tile, Tristate};
use super::functions::{IntType, Interval, between, full};
use super::operands::{select, tristate};
use super::value::{Val, coordinate, of};

/// A scalar, or a tuple, a struct or an array over a tile.
#[derive(Clone, Debug)]
pub enum Parts {
    /// A scalar.
    One(Val),
    /// The parts by name; those of tuples and arrays are `x`, `y`, `z`, `w`, `at4`, `at5`; `..` is the
    /// struct that has the other fields.
    Many(Vec<(&'static str, Parts)>),
    /// The index of a logit: the coordinates are those of the tile.
    At(Box<Tile>),
}

/// A scalar.
pub fn single(value: Val) -> Parts {
    Parts::One(value)
}

/// The value as a scalar; unknown if it has parts.
pub fn one(value: &Parts) -> Val {
    match value {
        Parts::One(value) => *value,
        Parts::Many(_) | Parts::At(_) => Val::Any,
    }
}

/// A tuple, a struct or an array.
pub fn many<const N: usize>(parts: [(&'static str, Parts); N]) -> Parts {
    Parts::Many(parts.into())
}

/// The index of the logits of a tile.
pub fn tile(tile: &Tile) -> Parts {
    Parts::At(Box::new(*tile))
}

/// A part by name, or a coordinate of an index; unknown if there is none.
pub fn part(of_value: &Parts, name: &str) -> Parts {
    let tile = match of_value {
        Parts::One(_) => return Parts::One(Val::Any),
        Parts::Many(parts) => {
            let of = |name: &str| parts.iter().find(|(there, _)| *there == name).map(|(_, part)| part);
            return match (of(name), of("..")) {
                (Some(part), _) => part.clone(),
                (None, Some(others)) => self::part(others, name),
                (None, None) => Parts::One(Val::Any),
            };
        }
        Parts::At(tile) => tile,
    };
    Parts::One(match name {
        "batch" => of(tile.batch),
        "qo_len" => of(tile.qo_len),
        "kv_len" => of(tile.kv_len),
        "qo_row" => coordinate(tile.qo_row_min, tile.qo_row_max),
        "qo_pos" => coordinate(tile.qo_pos_min, tile.qo_pos_max),
        "qo_token" => coordinate(tile.qo_token_min, tile.qo_token_max),
        "qo_head" => coordinate(tile.qo_head_min, tile.qo_head_max),
        "kv_head" => coordinate(tile.kv_head_min, tile.kv_head_max),
        "kv_pos" => coordinate(tile.kv_pos_min, tile.kv_pos_max),
        "kv_token" => coordinate(tile.kv_token_min, tile.kv_token_max),
        _ => Val::Any,
    })
}

/// A bool; unknown if it is none.
pub fn truth(value: Val) -> Val {
    Val::Bool(tristate(value))
}

/// Most steps of a loop that are made one by one.
const MOST_STEPS: i64 = 64;

/// The values after `for i in from..to` (`from..=to` if `inclusive`), of those before it: `step` makes one step. If the
/// bounds are not known or far apart, the values are those that no further step changes.
pub fn repeated<const N: usize>(
    from: Val,
    to: Val,
    inclusive: bool,
    before: [Val; N],
    step: impl Fn(Val, [Val; N]) -> [Val; N],
) -> [Val; N] {
    let mut state = before;
    run(from, to, inclusive, &mut state, &mut |i, state| {
        let mut now = [Val::Any; N];
        now.copy_from_slice(state);
        step(i, now).to_vec()
    });
    state
}

/// Runs a loop over any number of values, like [`repeated`].
pub fn run(from: Val, to: Val, inclusive: bool, state: &mut [Val], step: &mut dyn FnMut(Val, &[Val]) -> Vec<Val>) {
    let typed = match (from, to) {
        (Val::I32(from), Val::I32(to)) => Some((bounds(from), bounds(to), integers::<i32> as fn(i64, i64) -> Val)),
        (Val::U32(from), Val::U32(to)) => Some((bounds(from), bounds(to), integers::<u32> as fn(i64, i64) -> Val)),
        // a literal
        (Val::I32(from), Val::U32(to)) => Some((bounds(from), bounds(to), integers::<u32> as fn(i64, i64) -> Val)),
        _ => None,
    };
    let Some(((first, first_most), (end, end_most), value)) = typed else {
        state.iter_mut().for_each(|value| *value = unknown(*value));
        return;
    };
    let (end, end_most) = (end + i64::from(inclusive), end_most + i64::from(inclusive));
    if first == first_most && end == end_most && end - first <= MOST_STEPS {
        for i in first..end {
            let next = step(value(i, i), state);
            state.copy_from_slice(&next);
        }
        return;
    }
    if end_most <= first {
        return;
    }
    let any_step = value(first, end_most - 1);
    for round in 0.. {
        let next = step(any_step, state);
        let joined: Vec<Val> =
            state.iter().zip(next).map(|(a, b)| select(Val::Bool(Tristate::Unknown), *a, b)).collect();
        if joined == state {
            return;
        }
        for (value, joined) in state.iter_mut().zip(joined) {
            // of the joined type: a step may know nothing, not even the type, and no value is wider than that
            *value = if round < 3 || joined == *value { joined } else { unknown(joined) };
        }
    }
}

fn bounds<T: IntType>(a: Interval<T>) -> (i64, i64) {
    (a.lo.to_i64(), a.hi.to_i64())
}

fn integers<T: IntType>(lo: i64, hi: i64) -> Val
where
    Val: From<Interval<T>>,
{
    between::<T>(lo, hi).into()
}

/// Any value of the same type.
pub(crate) fn unknown(value: Val) -> Val {
    match value {
        Val::I32(_) => full::<i32>().into(),
        Val::U32(_) => full::<u32>().into(),
        Val::U8(_) => full::<u8>().into(),
        Val::Bool(_) => Val::Bool(Tristate::Unknown),
        Val::Wide(_) | Val::Any => Val::Any,
    }
}
