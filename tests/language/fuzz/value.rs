//! Values and their operators with the semantics of a Rust release build, except that division by zero is 0.

use syn::Lit;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum V {
    I32(i32),
    U32(u32),
    U8(u8),
    U64(u64),
    I64(i64),
    F32(f32),
    Bool(bool),
}

/// Dispatches over the integer types.
macro_rules! ints {
    ($a:expr, $b:expr, |$x:ident, $y:ident, $v:ident| $body:expr, $other:expr) => {
        match ($a, $b) {
            (V::I32($x), V::I32($y)) => {
                let $v = V::I32;
                $body
            }
            (V::U32($x), V::U32($y)) => {
                let $v = V::U32;
                $body
            }
            (V::U8($x), V::U8($y)) => {
                let $v = V::U8;
                $body
            }
            (V::U64($x), V::U64($y)) => {
                let $v = V::U64;
                $body
            }
            (V::I64($x), V::I64($y)) => {
                let $v = V::I64;
                $body
            }
            _ => $other,
        }
    };
}

pub(crate) use ints;

impl V {
    pub(crate) fn partial(self, other: V) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (V::F32(a), V::F32(b)) => a.partial_cmp(&b),
            (V::Bool(a), V::Bool(b)) => a.partial_cmp(&b),
            (a, b) => ints!(a, b, |x, y, _v| x.partial_cmp(&y), None),
        }
    }
}

pub(crate) fn wanted(ty: &syn::Type) -> Vec<V> {
    match ty {
        syn::Type::Tuple(t) => t.elems.iter().flat_map(wanted).collect(),
        syn::Type::Path(p) => vec![match p.path.segments[0].ident.to_string().as_str() {
            "i32" => V::I32(0),
            "u32" => V::U32(0),
            "u8" => V::U8(0),
            "u64" | "usize" => V::U64(0),
            "i64" => V::I64(0),
            "f32" => V::F32(0.0),
            _ => V::Bool(false),
        }],
        syn::Type::Array(t) => wanted(&t.elem),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn literal(lit: &Lit, want: V) -> V {
    match lit {
        Lit::Bool(b) => V::Bool(b.value),
        Lit::Float(f) => V::F32(f.base10_parse().expect("a float")),
        Lit::Byte(b) => V::U8(b.value()),
        Lit::Int(i) => {
            let ty = match i.suffix() {
                "" => want,
                suffix => wanted(&syn::parse_str(suffix).expect("a type"))[0],
            };
            let value: i128 = i.base10_digits().parse().expect("an integer");
            ints!(ty, ty, |_x, _y, v| v(value as _), V::F32(value as f32))
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn cast(x: V, to: V) -> V {
    macro_rules! to {
        ($x:expr) => {
            match to {
                V::I32(_) => V::I32($x as i32),
                V::U32(_) => V::U32($x as u32),
                V::U8(_) => V::U8($x as u8),
                V::U64(_) => V::U64($x as u64),
                V::I64(_) => V::I64($x as i64),
                V::F32(_) => V::F32($x as f32),
                V::Bool(_) => panic!("no cast"),
            }
        };
    }
    match x {
        V::I32(x) => to!(x),
        V::U32(x) => to!(x),
        V::U8(x) => to!(x),
        V::U64(x) => to!(x),
        V::I64(x) => to!(x),
        V::F32(x) => to!(x),
        V::Bool(x) => to!(u8::from(x)),
    }
}

pub(crate) fn operate(op: &str, x: V, y: V) -> V {
    if let "<<" | ">>" = op {
        let V::U32(by) = cast(y, V::U32(0)) else { panic!("{y:?}") };
        let left = op == "<<";
        return ints!(x, x, |x, _y, v| v(if left { x.wrapping_shl(by) } else { x.wrapping_shr(by) }), panic!("{x:?}"));
    }
    match (x, y) {
        (V::F32(x), V::F32(y)) => V::F32(match op {
            "+" => x + y,
            "-" => x - y,
            "*" => x * y,
            "/" => x / y,
            _ => x % y,
        }),
        (V::Bool(x), V::Bool(y)) => V::Bool(match op {
            "&" => x & y,
            "|" => x | y,
            _ => x ^ y,
        }),
        _ => ints!(
            x,
            y,
            |x, y, v| v(match op {
                "+" => x.wrapping_add(y),
                "-" => x.wrapping_sub(y),
                "*" => x.wrapping_mul(y),
                "/" =>
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_div(y)
                    },
                "%" =>
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_rem(y)
                    },
                "&" => x & y,
                "|" => x | y,
                _ => x ^ y,
            }),
            panic!("{x:?} {op} {y:?}")
        ),
    }
}
