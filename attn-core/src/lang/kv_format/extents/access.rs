//! Whether a call stays within a row.

use super::{Access, Touched};
use crate::lang::interval::{Interval, Val, cast_i32, functions::low_zeros, many, single};
use crate::lang::interval::{Parts, cast_u8, cast_u32};

/// What a format declares of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its elements.
    pub(super) dim: i64,
    /// Bytes of codes.
    pub(super) codes: i64,
    /// Bytes of side data.
    pub(super) side: i64,
}

impl Row {
    /// The result of a call, as far as it is known, or what the call does outside of the row.
    pub(super) fn touch(self, access: &Access, args: &[Val]) -> Result<Parts, String> {
        let number = |i: usize| match args.get(i).map(|&value| cast_i32(value)) {
            Some(Val::I32(number)) => number,
            _ => Interval { lo: i32::MIN, hi: i32::MAX, known: 0, value: 0 },
        };
        match access.target {
            Touched::Bytes { count, of_codes, written } => {
                let verb = if written { "writes" } else { "reads" };
                self.bytes(verb, number(0), i64::from(count), of_codes)?;
                if low_zeros(number(0)) < count.trailing_zeros() {
                    return Err(format!(
                        "{verb} {}, and a number of {count} bytes lies at a multiple of {count}",
                        bytes(number(0), count.into(), plane(of_codes))
                    ));
                }
                let word = || single(cast_u32(Val::Any));
                Ok(match (count, written) {
                    (_, true) => single(Val::Any),
                    (1, _) => single(cast_u32(cast_u8(Val::Any))),
                    (2, _) => single(Val::U32(Interval { lo: 0, hi: 0xffff, known: 0, value: 0 })),
                    (8, _) => many([("x", word()), ("y", word())]),
                    _ => word(),
                })
            }
            Touched::Codes { bits, of_codes } => {
                let (at, first, len) = (number(0), number(1), number(2));
                if low_zeros(first) < 3 || low_zeros(len) < 3 {
                    let elements = elements(first, len);
                    return Err(format!("packs {elements}, and the first and their number are multiples of 8"));
                }
                if (len.lo, len.hi) != (0, 0) {
                    self.elements("packs", first, len)?;
                    self.bytes("writes", at, i64::from(len.hi) * i64::from(bits) / 8, of_codes)?;
                }
                Ok(single(Val::Any))
            }
            Touched::Elements => {
                self.elements("reads", number(0), number(1))?;
                Ok(single(Val::Any))
            }
        }
    }

    fn bytes(self, verb: &str, at: Interval<i32>, count: i64, of_codes: bool) -> Result<(), String> {
        let (plane, declared) = if of_codes { ("codes", self.codes) } else { ("side", self.side) };
        if at.lo >= 0 && i64::from(at.hi) + count <= declared {
            return Ok(());
        }
        let bytes = bytes(at, count, plane);
        let function = if of_codes { "code_bytes" } else { "side_bytes" };
        Err(format!("{verb} {bytes}, and `{function}` gives {declared}{}", way_out(at, count, declared)))
    }

    fn elements(self, verb: &str, first: Interval<i32>, len: Interval<i32>) -> Result<(), String> {
        if first.lo >= 0 && len.lo >= 0 && i64::from(first.hi) + i64::from(len.hi) <= self.dim {
            return Ok(());
        }
        Err(format!("{verb} {}, and the row has {}", elements(first, len), self.dim))
    }
}

fn plane(of_codes: bool) -> &'static str {
    if of_codes { "codes" } else { "side" }
}

/// `bytes 4 .. 8 of codes`.
fn bytes(at: Interval<i32>, count: i64, plane: &str) -> String {
    if at.lo == at.hi {
        return format!("bytes {} .. {} of `{plane}`", at.lo, i64::from(at.lo) + count);
    }
    let count = if count == 1 { "a byte".to_owned() } else { format!("{count} bytes") };
    format!("{count} of `{plane}` at an offset {}", between(at))
}

fn elements(first: Interval<i32>, len: Interval<i32>) -> String {
    if first.lo == first.hi && len.lo == len.hi {
        return format!("elements {} .. {}", first.lo, i64::from(first.lo) + i64::from(len.lo));
    }
    format!("elements from one {} on, their number {}", between(first), between(len))
}

fn between(x: Interval<i32>) -> String {
    match (x.lo, x.hi) {
        (i32::MIN, i32::MAX) => "that nothing bounds".to_owned(),
        (lo, hi) if lo == hi => lo.to_string(),
        (lo, hi) => format!("from {lo} to {hi}"),
    }
}

/// What to do about an offset that is not one number.
fn way_out(at: Interval<i32>, count: i64, declared: i64) -> String {
    if at.lo == at.hi || declared < count {
        return String::new();
    }
    format!(
        ". An offset that depends on stored bytes, on the row or on a tensor is bounded where it is used, as by \
         `.clamp(0, {})`; one that overflows counts as any",
        declared - count
    )
}
