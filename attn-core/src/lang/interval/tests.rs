//! Each function against all concrete results of small sets of operands, and of sets at the ends of the types.

use super::{super::Tristate, functions, *};

type Abstract2 = fn(Val, Val) -> Val;

/// The types of integers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Int {
    I32,
    U32,
    U8,
}

impl Int {
    fn min(self) -> i64 {
        if self == Int::I32 { i32::MIN.into() } else { 0 }
    }
    fn max(self) -> i64 {
        match self {
            Int::I32 => i32::MAX.into(),
            Int::U32 => u32::MAX.into(),
            Int::U8 => u8::MAX.into(),
        }
    }
    fn bits(self) -> u32 {
        if self == Int::U8 { 8 } else { 32 }
    }
    fn mask(self) -> u32 {
        if self == Int::U8 { 0xff } else { u32::MAX }
    }
}

/// A set of integers: bounds and known bits.
#[derive(Clone, Copy, Debug)]
struct Set {
    lo: i64,
    hi: i64,
    known: u32,
    value: u32,
}

impl Set {
    fn between(lo: i64, hi: i64) -> Set {
        Set { lo, hi, known: 0, value: 0 }
    }

    /// The same set as an abstract value.
    fn of(self, ty: Int) -> Val {
        fn typed<T: functions::IntType>(set: Set) -> Interval<T> {
            functions::with_bits(functions::between(set.lo, set.hi), set.known, set.value)
        }
        match ty {
            Int::I32 => typed::<i32>(self).into(),
            Int::U32 => typed::<u32>(self).into(),
            Int::U8 => typed::<u8>(self).into(),
        }
    }
}

/// An abstract value with all its known bits; `None` for a bool, or if nothing is known.
fn set_of(value: Val) -> Option<Set> {
    fn typed<T: functions::IntType>(a: Interval<T>) -> Set {
        let functions::KnownBits { known, value } = functions::bits(a);
        assert_eq!(a.value & !a.known, 0, "no value of an unknown bit");
        Set { lo: a.lo.to_i64(), hi: a.hi.to_i64(), known, value }
    }
    match value {
        Val::I32(a) => Some(typed(a)),
        Val::U32(a) => Some(typed(a)),
        Val::U8(a) => Some(typed(a)),
        Val::Wide(_) | Val::Bool(_) | Val::Any => None,
    }
}

/// Sets of integers: small intervals, some with known low bits, and intervals at the ends of the type.
fn sets(ty: Int) -> Vec<Set> {
    let (min, max) = (ty.min(), ty.max());
    let mut sets = Vec::new();
    let small = if ty == Int::I32 { -5..=6 } else { 0..=9 };
    for lo in small.clone() {
        sets.extend((lo..=*small.end()).map(|hi| Set::between(lo, hi)));
    }
    sets.extend((0..3).flat_map(|i| [Set::between(min, min + i), Set::between(max - i, max)]));
    sets.extend([(100, 103), (127, 129), (62, 66)].map(|(lo, hi)| Set::between(lo, hi)));
    if ty == Int::I32 {
        sets.push(Set::between(-129, -126));
    }
    sets.extend([(3, 1), (1, 1), (2, 0), (4, 4)].map(|(known, value)| Set { lo: 0, hi: 9, known, value }));
    sets
}

fn members(set: Set) -> Vec<i64> {
    (set.lo..=set.hi).filter(|&x| (x as u32 ^ set.value) & set.known == 0).collect()
}

fn wrap(ty: Int, x: i64) -> i64 {
    match ty {
        Int::I32 => i64::from(x as i32),
        Int::U32 => i64::from(x as u32),
        Int::U8 => i64::from(x as u8),
    }
}

fn holds(set: Val, x: i64) -> bool {
    match set {
        Val::Bool(Tristate::True) => x == 1,
        Val::Bool(Tristate::False) => x == 0,
        _ => set_of(set).is_none_or(|set| (set.lo..=set.hi).contains(&x) && (x as u32 ^ set.value) & set.known == 0),
    }
}

const TYPES: [Int; 3] = [Int::I32, Int::U32, Int::U8];

/// Checks a function of two integers. `exact` gives `None` where Rust panics.
fn check(name: &str, f: Abstract2, exact: impl Fn(Int, i64, i64) -> Option<i64>) {
    for ty in TYPES {
        let sets = sets(ty);
        for &a in &sets {
            for &b in &sets {
                let result = f(a.of(ty), b.of(ty));
                for x in members(a) {
                    for y in members(b) {
                        if let Some(z) = exact(ty, x, y) {
                            assert!(holds(result, z), "{name}: {x} of {a:?}, {y} of {b:?}: {z} is not in {result:?}");
                        }
                    }
                }
            }
        }
    }
}

fn check_one(name: &str, f: fn(Val) -> Val, exact: impl Fn(Int, i64) -> Option<i64>) {
    for ty in TYPES {
        for a in sets(ty) {
            let result = f(a.of(ty));
            for x in members(a) {
                if let Some(z) = exact(ty, x) {
                    assert!(holds(result, z), "{name}: {x} of {a:?}: {z} is not in {result:?}");
                }
            }
        }
    }
}

#[test]
fn sums_and_products_are_sound() {
    check("add", add, |ty, x, y| Some(wrap(ty, x + y)));
    check("sub", sub, |ty, x, y| Some(wrap(ty, x - y)));
    check("mul", mul, |ty, x, y| Some(wrap(ty, x.wrapping_mul(y))));
    check("saturating_add", saturating_add, |ty, x, y| Some((x + y).clamp(ty.min(), ty.max())));
    check("saturating_sub", saturating_sub, |ty, x, y| Some((x - y).clamp(ty.min(), ty.max())));
    check_one("neg", neg, |ty, x| Some(wrap(ty, -x)));
}

#[test]
fn quotients_are_sound() {
    check("div", div, |ty, x, y| (y != 0).then(|| wrap(ty, x / y)));
    check("rem", rem, |ty, x, y| (y != 0).then(|| wrap(ty, x % y)));
    check("div_euclid", div_euclid, |ty, x, y| (y != 0).then(|| wrap(ty, x.div_euclid(y))));
    check("rem_euclid", rem_euclid, |ty, x, y| (y != 0).then(|| wrap(ty, x.rem_euclid(y))));
}

#[test]
fn bits_are_sound() {
    check("and", bit_and, |_, x, y| Some(x & y));
    check("or", bit_or, |_, x, y| Some(x | y));
    check("xor", bit_xor, |_, x, y| Some(x ^ y));
    check_one("not", bit_not, |ty, x| Some(wrap(ty, !x)));
    check("shl", shl, |ty, x, y| Some(wrap(ty, x << (y & i64::from(ty.bits() - 1)))));
    check("shr", shr, |ty, x, y| Some(x >> (y & i64::from(ty.bits() - 1))));
}

#[test]
fn comparisons_are_sound() {
    check("lt", lt, |_, x, y| Some((x < y).into()));
    check("le", le, |_, x, y| Some((x <= y).into()));
    check("gt", gt, |_, x, y| Some((x > y).into()));
    check("ge", ge, |_, x, y| Some((x >= y).into()));
    check("eq", eq, |_, x, y| Some((x == y).into()));
    check("ne", ne, |_, x, y| Some((x != y).into()));
}

#[test]
fn methods_are_sound() {
    check("min", min, |_, x, y| Some(x.min(y)));
    check("max", max, |_, x, y| Some(x.max(y)));
    check("clamp", |x, y| clamp(x, of_like(x, 2), y), |_, x, y| (y >= 2).then(|| x.clamp(2, y)));
    check("abs_diff", abs_diff, |_, x, y| Some((x - y).abs()));
    check("pow", pow, |ty, x, y| {
        let power = u32::try_from(y).ok().and_then(|y| x.checked_pow(y));
        power.filter(|p| (ty.min()..=ty.max()).contains(p))
    });
    check_one("abs", abs, |ty, x| Some(wrap(ty, x.abs())));
    check_one("unsigned_abs", unsigned_abs, |_, x| Some(x.abs()));
    check_one("signum", signum, |_, x| Some(x.signum()));
    let own = |ty: Int, x: i64| x as u32 & ty.mask();
    check_one("count_ones", count_ones, |ty, x| Some(own(ty, x).count_ones().into()));
    check_one("power", is_power_of_two, |ty, x| Some(own(ty, x).is_power_of_two().into()));
    check_one("leading", leading_zeros, |ty, x| Some(i64::from(own(ty, x).leading_zeros() + ty.bits()) - 32));
    check_one("trailing", trailing_zeros, |ty, x| Some(own(ty, x).trailing_zeros().min(ty.bits()).into()));
    check_one("as i32", cast_i32, |_, x| Some(wrap(Int::I32, x)));
    check_one("as u32", cast_u32, |_, x| Some(wrap(Int::U32, x)));
    check_one("as u8", cast_u8, |_, x| Some(wrap(Int::U8, x)));
}

#[test]
fn a_choice_joins_both_where_the_condition_is_unknown() {
    for c in [Tristate::False, Tristate::Unknown, Tristate::True] {
        check(
            "select",
            match c {
                Tristate::False => |a, b| select(Val::Bool(Tristate::False), a, b),
                Tristate::Unknown => |a, b| select(Val::Any, a, b),
                Tristate::True => |a, b| select(Val::Bool(Tristate::True), a, b),
            },
            |_, x, y| Some(if c == Tristate::True { x } else { y }),
        );
    }
    check("select", |a, b| select(Val::Bool(Tristate::Unknown), a, b), |_, x, _| Some(x));
}

#[test]
fn truth_tables() {
    let all = [Tristate::False, Tristate::Unknown, Tristate::True];
    let bools = |t: Tristate| match t {
        Tristate::False => vec![false],
        Tristate::Unknown => vec![false, true],
        Tristate::True => vec![true],
    };
    type Concrete = fn(bool, bool) -> bool;
    let table: [(Abstract2, Concrete); 6] = [
        (both, |a, b| a && b),
        (either, |a, b| a || b),
        (bit_and, |a, b| a & b),
        (bit_or, |a, b| a | b),
        (bit_xor, |a, b| a ^ b),
        (eq, |a, b| a == b),
    ];
    for (f, exact) in table {
        for a in all {
            for b in all {
                let results: Vec<bool> =
                    bools(a).into_iter().flat_map(|x| bools(b).into_iter().map(move |y| exact(x, y))).collect();
                let truth = functions::known(results.iter().all(|x| *x), !results.iter().any(|x| *x));
                assert_eq!(f(Val::Bool(a), Val::Bool(b)), Val::Bool(truth));
            }
        }
    }
    assert_eq!((both(Val::Any, of(false)), either(Val::Any, of(true))), (of(false), of(true)));
}

/// Results that must stay exact: tile classes depend on them.
#[test]
fn common_masks_are_exact() {
    let ints = |lo, hi| Set::between(lo, hi).of(Int::I32);
    let int = |x: i64| ints(x, x);
    assert_eq!(sub(ints(256, 383), ints(0, 127)), ints(129, 383));
    assert_eq!(div(ints(256, 383), int(128)), int(2));
    assert_eq!(rem(ints(256, 383), int(128)), ints(0, 127));
    assert_eq!(rem(ints(300, 310), int(128)), ints(44, 54));
    assert_eq!(rem_euclid(ints(-3, -1), int(128)), ints(125, 127));
    assert_eq!(eq(div(ints(0, 127), int(128)), div(ints(128, 255), int(128))), of(false));
    assert_eq!(cast_u32(ints(-3, -1)), Set::between((1 << 32) - 3, (1 << 32) - 1).of(Int::U32));
    // 64..=127 and 128..=191 differ in bit 7
    assert_eq!(lt(bit_xor(ints(64, 127), ints(128, 191)), int(128)), of(false));
    assert_eq!(eq(bit_and(shl(ints(0, 9), int(1)), int(1)), int(0)), of(true));
    assert_eq!(eq(rem(mul(ints(0, 900), int(4)), int(4)), int(1)), of(false));
    assert_eq!(abs(sub(ints(0, 9), ints(20, 30))), ints(11, 30));
}

fn of_like(x: Val, value: i64) -> Val {
    let only = Set::between(value, value);
    match x {
        Val::I32(_) => only.of(Int::I32),
        Val::U32(_) => only.of(Int::U32),
        Val::U8(_) => only.of(Int::U8),
        x => x,
    }
}

/// Functions of 64 bits, cells and powers of two, on random sets of a few integers.
#[test]
fn wide_functions_contain_every_result() {
    type Exact = fn(i128, i128) -> Option<i128>;
    type Truth = fn(i128, i128) -> bool;
    let pairs: [(&str, Abstract2, Exact); 10] = [
        ("add", add, |x, y| Some(x + y)),
        ("sub", sub, |x, y| Some(x - y)),
        ("mul", mul, |x, y| Some(x * y)),
        ("div", div, |x, y| (y != 0).then(|| x / y)),
        ("rem", rem, |x, y| (y != 0).then(|| x % y)),
        ("div_euclid", div_euclid, |x, y| (y != 0).then(|| x.div_euclid(y))),
        ("rem_euclid", rem_euclid, |x, y| (y != 0).then(|| x.rem_euclid(y))),
        ("min", min, |x, y| Some(x.min(y))),
        ("max", max, |x, y| Some(x.max(y))),
        ("bit_and", bit_and, |x, y| Some(x & y)),
    ];
    let compared: [(&str, Abstract2, Truth); 3] =
        [("lt", lt, |x, y| x < y), ("le", le, |x, y| x <= y), ("eq", eq, |x, y| x == y)];
    let ends = [-(1i64 << 61), -9, -4, -1, 0, 1, 3, 7, 8, 15, 64, 1 << 40, (1 << 61) - 8];
    let sets: Vec<(i64, i64)> = ends.iter().flat_map(|&lo| [0, 1, 5, 8].map(|n| (lo, lo + n))).collect();
    for is_unsigned in [false, true] {
        let range = if is_unsigned { (0, i128::from(u64::MAX)) } else { (i64::MIN.into(), i64::MAX.into()) };
        let of = |(lo, hi): (i64, i64)| Val::Wide(super::wide::wide(lo, hi, is_unsigned));
        let legal = |set: &&(i64, i64)| !is_unsigned || set.0 >= 0;
        for &a in sets.iter().filter(legal) {
            for &b in sets.iter().filter(legal) {
                let all = || (a.0..=a.1).flat_map(|x| (b.0..=b.1).map(move |y| (i128::from(x), i128::from(y))));
                for (name, f, exact) in &pairs {
                    let Val::Wide(result) = f(of(a), of(b)) else { panic!("{name}") };
                    for (x, y) in all().filter(|_| result.known) {
                        // a result that wraps may be anything
                        let Some(z) = exact(x, y).filter(|z| (range.0..=range.1).contains(z)) else {
                            assert!(exact(x, y).is_none(), "{name} of {x}, {y} wraps, but {result:?} is known");
                            continue;
                        };
                        let inside = i128::from(result.lo) <= z && z <= i128::from(result.hi);
                        assert!(inside, "{name}: {z} of {x}, {y} is not in {result:?}");
                    }
                }
                for (name, f, exact) in &compared {
                    let known = tristate(f(of(a), of(b)));
                    for (x, y) in all().filter(|_| known != Tristate::Unknown) {
                        assert_eq!(known == Tristate::True, exact(x, y), "{name} of {x}, {y}");
                    }
                }
            }
        }
    }
}

#[test]
fn cells_and_powers_contain_every_result() {
    let of = |lo: i32, hi: i32| coordinate(lo, hi);
    let one = |x: i32| coordinate(x, x);
    for lo in -40..40 {
        for hi in lo..lo + 30 {
            let set = clear_lowest(of(lo, hi));
            for x in lo..=hi {
                assert!(holds(set, i64::from(x & (x - 1))), "{x} of {lo}..={hi}: {set:?}");
            }
            if hi - lo > 12 {
                continue;
            }
            for y in 0..4 {
                let result = tristate(eq_cell(of(lo, hi), one(16), one(4), of(y, y)));
                for x in (lo..=hi).filter(|_| result != Tristate::Unknown) {
                    assert_eq!(result == Tristate::True, x.rem_euclid(16) / 4 == y, "{x}, {y}");
                }
            }
            for other in -20..20 {
                let result = tristate(eq_cells(of(lo, hi), of(other, other + 3), one(16), one(4)));
                let cell = |x: i32| x.rem_euclid(16) / 4;
                for x in (lo..=hi).filter(|_| result != Tristate::Unknown) {
                    for y in other..=other + 3 {
                        assert_eq!(result == Tristate::True, cell(x) == cell(y), "{x}, {y}");
                    }
                }
            }
        }
    }
}
