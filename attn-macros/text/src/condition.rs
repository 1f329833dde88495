//! The expressions of parameters: `#[require(..)]`, `#[shape(..)]`, scalar `#[default(..)]`s and constants.
//!
//! ```text
//! literals, fields, dimensions, constants, + - * / % << >> ! && || == != < <= > >=, casts, if .. else, ( )
//! x.is_finite()  x.is_nan()  x.abs()  x.min(y)  x.max(y)  (low..high).contains(&x)
//! tensor.as_slice().len()  tensor.as_slice().iter().all(|x| ..)  .any(|x| ..)
//! ```

mod read;

/// An expression.
#[derive(Clone, Debug)]
pub(crate) enum Ex {
    Is(Number),
    /// A field, a dimension, or the argument of a closure.
    Name(String),
    Not(Box<Ex>),
    Negative(Box<Ex>),
    Binary(Op, Box<Ex>, Box<Ex>),
    Cast(Target, Box<Ex>),
    /// Whether the first is at least the second, and less than the third, or at most where the flag is set.
    Inside(Box<Ex>, Option<Box<Ex>>, Option<Box<Ex>>, bool),
    If(Box<Ex>, Box<Ex>, Box<Ex>),
    Call(Method, Box<Ex>, Option<Box<Ex>>),
    /// The number of elements of a tensor.
    Len(String),
    /// `all` (else `any`) over the elements of a tensor, which have this name.
    Every(bool, String, String, Box<Ex>),
}

/// A value: integers are wide, floats are f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Float(f32),
    Bool(bool),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    Shr,
    And,
    Or,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    I32,
    U32,
    I64,
    U64,
    F32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Method {
    IsFinite,
    IsNan,
    Abs,
    Min,
    Max,
}

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A dimension is not known yet, or a tensor is not set.
    Unknown,
    /// It overflows, divides by zero, or mixes types.
    Arithmetic,
}

/// What names stand for.
pub(crate) trait Names {
    /// The value of a name.
    fn number(&self, name: &str) -> Result<Number, Stop>;
    /// The elements of a tensor.
    fn elements(&self, name: &str) -> Result<Vec<Number>, Stop>;
}

/// No names.
pub(crate) struct NoNames;

impl Names for NoNames {
    fn number(&self, _: &str) -> Result<Number, Stop> {
        Err(Stop::Unknown)
    }
    fn elements(&self, _: &str) -> Result<Vec<Number>, Stop> {
        Err(Stop::Unknown)
    }
}

/// The element of a closure, in front of other names.
struct Element<'a> {
    name: &'a str,
    value: Number,
    outer: &'a dyn Names,
}

impl Names for Element<'_> {
    fn number(&self, name: &str) -> Result<Number, Stop> {
        if name == self.name { Ok(self.value) } else { self.outer.number(name) }
    }
    fn elements(&self, name: &str) -> Result<Vec<Number>, Stop> {
        self.outer.elements(name)
    }
}

impl Ex {
    /// The value.
    pub(crate) fn value(&self, names: &dyn Names) -> Result<Number, Stop> {
        match self {
            Ex::Is(number) => Ok(*number),
            Ex::Name(name) => names.number(name),
            Ex::Not(x) => match x.value(names)? {
                Number::Bool(x) => Ok(Number::Bool(!x)),
                _ => Err(Stop::Arithmetic),
            },
            Ex::Negative(x) => match x.value(names)? {
                Number::Int(x) => x.checked_neg().map(Number::Int).ok_or(Stop::Arithmetic),
                Number::Float(x) => Ok(Number::Float(-x)),
                Number::Bool(_) => Err(Stop::Arithmetic),
            },
            Ex::Binary(Op::And, a, b) => Ok(Number::Bool(a.truth(names)? && b.truth(names)?)),
            Ex::Binary(Op::Or, a, b) => Ok(Number::Bool(a.truth(names)? || b.truth(names)?)),
            Ex::Binary(op, a, b) => binary(*op, a.value(names)?, b.value(names)?),
            Ex::Cast(target, x) => cast(*target, x.value(names)?),
            Ex::Inside(x, low, high, inclusive) => {
                let x = x.value(names)?;
                let holds = |op: Op, bound: &Option<Box<Ex>>| match bound {
                    None => Ok(true),
                    Some(bound) => Ok(binary(op, x, bound.value(names)?)? == Number::Bool(true)),
                };
                let below = if *inclusive { Op::Le } else { Op::Lt };
                Ok(Number::Bool(holds(Op::Ge, low)? && holds(below, high)?))
            }
            Ex::If(condition, a, b) => {
                if condition.truth(names)? {
                    a.value(names)
                } else {
                    b.value(names)
                }
            }
            Ex::Call(method, x, y) => {
                let y = y.as_ref().map(|y| y.value(names)).transpose()?;
                called(*method, x.value(names)?, y)
            }
            Ex::Len(tensor) => Ok(Number::Int(names.elements(tensor)?.len() as i64)),
            Ex::Every(all, tensor, name, condition) => {
                for value in names.elements(tensor)? {
                    if condition.truth(&Element { name, value, outer: names })? != *all {
                        return Ok(Number::Bool(!*all));
                    }
                }
                Ok(Number::Bool(*all))
            }
        }
    }

    /// Whether every name in it has a value. A condition is checked only then, as the derive does it.
    pub(crate) fn is_known(&self, names: &dyn Names) -> bool {
        match self {
            Ex::Is(_) => true,
            Ex::Name(name) => names.number(name) != Err(Stop::Unknown),
            Ex::Not(x) | Ex::Negative(x) | Ex::Cast(_, x) | Ex::Call(_, x, None) => x.is_known(names),
            Ex::Binary(_, x, y) | Ex::Call(_, x, Some(y)) => x.is_known(names) && y.is_known(names),
            Ex::Inside(x, low, high, _) => {
                x.is_known(names) && [low, high].into_iter().flatten().all(|bound| bound.is_known(names))
            }
            Ex::If(x, y, z) => [x, y, z].into_iter().all(|x| x.is_known(names)),
            Ex::Len(tensor) => names.elements(tensor).is_ok(),
            Ex::Every(_, tensor, name, condition) => {
                let value = Number::Bool(true); // of whatever type: the name is known
                names.elements(tensor).is_ok() && condition.is_known(&Element { name, value, outer: names })
            }
        }
    }

    /// Whether it looks at all elements of a tensor.
    fn has_every(&self) -> bool {
        match self {
            Ex::Every(..) => true,
            Ex::Is(_) | Ex::Name(_) | Ex::Len(_) => false,
            Ex::Not(x) | Ex::Negative(x) | Ex::Cast(_, x) | Ex::Call(_, x, None) => x.has_every(),
            Ex::Binary(_, x, y) | Ex::Call(_, x, Some(y)) => x.has_every() || y.has_every(),
            Ex::Inside(x, low, high, _) => {
                x.has_every() || [low, high].into_iter().flatten().any(|bound| bound.has_every())
            }
            Ex::If(x, y, z) => [x, y, z].into_iter().any(|x| x.has_every()),
        }
    }

    /// The value of a condition.
    pub(crate) fn truth(&self, names: &dyn Names) -> Result<bool, Stop> {
        match self.value(names)? {
            Number::Bool(x) => Ok(x),
            _ => Err(Stop::Arithmetic),
        }
    }

    /// The value of an extent.
    pub(crate) fn integer(&self, names: &dyn Names) -> Result<i64, Stop> {
        match self.value(names)? {
            Number::Int(x) => Ok(x),
            _ => Err(Stop::Arithmetic),
        }
    }
}

/// `x as i32` and the like: integers wrap, floats saturate.
fn cast(target: Target, x: Number) -> Result<Number, Stop> {
    Ok(match (target, x) {
        (Target::F32, Number::Int(x)) => Number::Float(x as f32),
        (Target::F32, Number::Float(x)) => Number::Float(x),
        (Target::F32, Number::Bool(_)) => return Err(Stop::Arithmetic),
        (_, Number::Bool(x)) => Number::Int(x.into()),
        (Target::I32, Number::Int(x)) => Number::Int((x as i32).into()),
        (Target::I32, Number::Float(x)) => Number::Int((x as i32).into()),
        (Target::U32, Number::Int(x)) => Number::Int((x as u32).into()),
        (Target::U32, Number::Float(x)) => Number::Int((x as u32).into()),
        (Target::I64, Number::Int(x)) => Number::Int(x),
        (Target::I64, Number::Float(x)) => Number::Int(x as i64),
        // numbers above those of i64 are not represented
        (Target::U64, Number::Int(x)) => Number::Int(u64::try_from(x).map(|_| x).map_err(|_| Stop::Arithmetic)?),
        (Target::U64, Number::Float(x)) => Number::Int(i64::try_from(x as u64).map_err(|_| Stop::Arithmetic)?),
    })
}

fn binary(op: Op, a: Number, b: Number) -> Result<Number, Stop> {
    let compared = |order: Option<std::cmp::Ordering>| {
        Number::Bool(match op {
            Op::Eq => order.is_some_and(std::cmp::Ordering::is_eq),
            Op::Ne => !order.is_some_and(std::cmp::Ordering::is_eq),
            Op::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
            Op::Le => order.is_some_and(std::cmp::Ordering::is_le),
            Op::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
            _ => order.is_some_and(std::cmp::Ordering::is_ge),
        })
    };
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => {
            let made = match op {
                Op::Add => a.checked_add(b),
                Op::Sub => a.checked_sub(b),
                Op::Mul => a.checked_mul(b),
                Op::Div => a.checked_div(b),
                Op::Rem => a.checked_rem(b),
                Op::Shl => u32::try_from(b).ok().and_then(|by| a.checked_shl(by)),
                Op::Shr => u32::try_from(b).ok().and_then(|by| a.checked_shr(by)),
                _ => return Ok(compared(Some(a.cmp(&b)))),
            };
            made.map(Number::Int).ok_or(Stop::Arithmetic)
        }
        (Number::Float(a), Number::Float(b)) => Ok(Number::Float(match op {
            Op::Add => a + b,
            Op::Sub => a - b,
            Op::Mul => a * b,
            Op::Div => a / b,
            Op::Rem => a % b,
            Op::Shl | Op::Shr => return Err(Stop::Arithmetic),
            _ => return Ok(compared(a.partial_cmp(&b))),
        })),
        (Number::Bool(a), Number::Bool(b)) if matches!(op, Op::Eq | Op::Ne) => Ok(compared(Some(a.cmp(&b)))),
        _ => Err(Stop::Arithmetic),
    }
}

fn called(method: Method, x: Number, y: Option<Number>) -> Result<Number, Stop> {
    Ok(match (method, x, y) {
        (Method::IsFinite, Number::Float(x), None) => Number::Bool(x.is_finite()),
        (Method::IsNan, Number::Float(x), None) => Number::Bool(x.is_nan()),
        (Method::Abs, Number::Float(x), None) => Number::Float(x.abs()),
        (Method::Abs, Number::Int(x), None) => Number::Int(x.checked_abs().ok_or(Stop::Arithmetic)?),
        (Method::Min, Number::Int(x), Some(Number::Int(y))) => Number::Int(x.min(y)),
        (Method::Max, Number::Int(x), Some(Number::Int(y))) => Number::Int(x.max(y)),
        (Method::Min, Number::Float(x), Some(Number::Float(y))) => Number::Float(x.min(y)),
        (Method::Max, Number::Float(x), Some(Number::Float(y))) => Number::Float(x.max(y)),
        _ => return Err(Stop::Arithmetic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two;

    impl Names for Two {
        fn number(&self, name: &str) -> Result<Number, Stop> {
            match name {
                "n" => Ok(Number::Int(6)),
                "x" => Ok(Number::Float(0.5)),
                _ => Err(Stop::Unknown),
            }
        }
        fn elements(&self, name: &str) -> Result<Vec<Number>, Stop> {
            if name == "t" { Ok([1.0, 2.0].map(Number::Float).to_vec()) } else { Err(Stop::Unknown) }
        }
    }

    fn value(text: &str) -> Result<Number, Stop> {
        let expr = syn::parse_str(text).expect("an expression");
        Ex::of(&expr, &|_| None).expect("in the grammar").value(&Two)
    }

    #[test]
    fn expressions_have_the_values_of_rust() {
        assert_eq!(value("2 * n + 1"), Ok(Number::Int(13)));
        assert_eq!(value("if n == 0 { n } else { n / 2 }"), Ok(Number::Int(3)));
        assert_eq!(value("x > 0.0 && x.is_finite()"), Ok(Number::Bool(true)));
        assert_eq!(value("x < f32::INFINITY && -x.max(2.0) == -2.0"), Ok(Number::Bool(true)));
        assert_eq!(value("t.as_slice().iter().all(|x| *x > 0.0 && x.is_finite())"), Ok(Number::Bool(true)));
        assert_eq!(value("t.as_slice().iter().any(|&y| y > 2.0)"), Ok(Number::Bool(false)));
        assert_eq!(value("(0.0..1.0).contains(&x) && (6..=6).contains(&n) && n < 1 << 3"), Ok(Number::Bool(true)));
        assert_eq!(value("t.as_slice().len() as i32 == n / 3"), Ok(Number::Bool(true)));
    }

    #[test]
    fn casts_wrap_and_saturate_as_in_rust() {
        assert_eq!(value("(-1 as u32) > 0 && (n - 9) as u32 == 4294967293"), Ok(Number::Bool(true)));
        assert_eq!(value("(1e10 as i32) as i64"), Ok(Number::Int(i32::MAX.into())));
        assert_eq!(value("-1.5 as u32 as f32"), Ok(Number::Float(0.0)));
        assert_eq!(value("4294967298 as i32"), Ok(Number::Int(2)));
        assert_eq!(value("3.9 as i32 as usize"), Ok(Number::Int(3)));
        assert_eq!((value("-1 as u64"), value("1e19 as u64")), (Err(Stop::Arithmetic), Err(Stop::Arithmetic)));
    }

    #[test]
    fn what_has_no_value_says_why() {
        assert_eq!(value("n / 0"), Err(Stop::Arithmetic));
        assert_eq!(value("unknown + 1"), Err(Stop::Unknown));
        assert_eq!(value("n > 0.5"), Err(Stop::Arithmetic));
        let expr = syn::parse_str("compute(n)").expect("an expression");
        let error = Ex::of(&expr, &|_| None).expect_err("a call");
        assert!(error.to_string().contains("no compiled functions"), "{error}");
    }
}
