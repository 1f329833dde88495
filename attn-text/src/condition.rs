//! The expressions of parameters: `#[require(..)]`, `#[shape(..)]`, scalar `#[default(..)]`s and constants.
//!
//! ```text
//! literals, fields, dimensions, constants, + - * / % << >> ! && || == != < <= > >=, casts, if .. else, ( )
//! x.is_finite()  x.is_nan()  x.abs()  x.min(y)  x.max(y)  (low..high).contains(&x)
//! tensor.as_slice().len()  tensor.as_slice().iter().all(|x| ..)  .any(|x| ..)
//! ```

use syn::{BinOp, Expr, Lit, Pat, Stmt, UnOp};

use crate::{constant::named_constant, expansion::last_name};

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
    Int,
    Float,
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
    /// Reads an expression. `constant` resolves a path that is no field and no dimension.
    pub(crate) fn of(expr: &Expr, constant: &dyn Fn(&syn::Path) -> Option<Number>) -> syn::Result<Ex> {
        let refused = || {
            syn::Error::new_spanned(
                expr,
                "Rust text has no compiled functions: write this with literals, parameters, dimensions, constants, \
                 arithmetic, comparisons, `if`, is_finite, abs, min, max, and `x.as_slice().iter().all(|x| ..)`",
            )
        };
        let sub = |expr: &Expr| Ex::of(expr, constant).map(Box::new);
        Ok(match expr {
            Expr::Paren(inner) => return Ex::of(&inner.expr, constant),
            Expr::Group(inner) => return Ex::of(&inner.expr, constant),
            Expr::Lit(lit) => Ex::Is(literal(&lit.lit).ok_or_else(refused)?),
            Expr::Path(path) => match (constant(&path.path), path.path.get_ident()) {
                (Some(number), _) => Ex::Is(number),
                (None, Some(name)) => Ex::Name(name.to_string().trim_start_matches("r#").to_owned()),
                (None, None) => Ex::Is(named_constant(&path.path).ok_or_else(refused)?),
            },
            Expr::Reference(reference) => return Ex::of(&reference.expr, constant),
            Expr::Unary(unary) => match unary.op {
                UnOp::Not(_) => Ex::Not(sub(&unary.expr)?),
                UnOp::Neg(_) => Ex::Negative(sub(&unary.expr)?),
                // the element of `|x| *x > 0`
                UnOp::Deref(_) => return Ex::of(&unary.expr, constant),
                _ => return Err(refused()),
            },
            Expr::Binary(binary) => {
                let op = operator(&binary.op).ok_or_else(refused)?;
                Ex::Binary(op, sub(&binary.left)?, sub(&binary.right)?)
            }
            Expr::Cast(cast) => {
                let target = match &*cast.ty {
                    syn::Type::Path(ty) => match last_name(&ty.path).as_str() {
                        "f32" => Target::Float,
                        "i32" | "u32" | "i64" | "u64" | "usize" => Target::Int,
                        _ => return Err(refused()),
                    },
                    _ => return Err(refused()),
                };
                Ex::Cast(target, sub(&cast.expr)?)
            }
            Expr::If(branch) => {
                let (_, otherwise) = branch.else_branch.as_ref().ok_or_else(refused)?;
                let then = only(&branch.then_branch).ok_or_else(refused)?;
                Ex::If(sub(&branch.cond)?, sub(then)?, sub(otherwise)?)
            }
            Expr::Block(block) => return Ex::of(only(&block.block).ok_or_else(refused)?, constant),
            Expr::MethodCall(call) => return method(call, constant, &refused),
            _ => return Err(refused()),
        })
    }

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
            Ex::Cast(target, x) => Ok(match (target, x.value(names)?) {
                (Target::Int, Number::Int(x)) => Number::Int(x),
                (Target::Int, Number::Bool(x)) => Number::Int(x.into()),
                (Target::Int, Number::Float(x)) => Number::Int(x as i64),
                (Target::Float, Number::Int(x)) => Number::Float(x as f32),
                (Target::Float, Number::Float(x)) => Number::Float(x),
                (Target::Float, Number::Bool(_)) => return Err(Stop::Arithmetic),
            }),
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
            Ex::If(x, y, z) => [x, y, z].into_iter().all(|x| x.is_known(names)),
            Ex::Len(tensor) => names.elements(tensor).is_ok(),
            Ex::Every(_, tensor, name, condition) => {
                let value = Number::Bool(true); // of whatever type: the name is known
                names.elements(tensor).is_ok() && condition.is_known(&Element { name, value, outer: names })
            }
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

/// The value of a literal.
fn literal(lit: &Lit) -> Option<Number> {
    match lit {
        Lit::Int(x) if matches!(x.suffix(), "f32" | "f64") => x.base10_parse().ok().map(Number::Float),
        Lit::Int(x) => x.base10_parse().ok().map(Number::Int),
        Lit::Float(x) => x.base10_parse().ok().map(Number::Float),
        Lit::Bool(x) => Some(Number::Bool(x.value)),
        _ => None,
    }
}

fn operator(op: &BinOp) -> Option<Op> {
    Some(match op {
        BinOp::Add(_) => Op::Add,
        BinOp::Sub(_) => Op::Sub,
        BinOp::Mul(_) => Op::Mul,
        BinOp::Div(_) => Op::Div,
        BinOp::Rem(_) => Op::Rem,
        BinOp::Shl(_) => Op::Shl,
        BinOp::Shr(_) => Op::Shr,
        BinOp::And(_) => Op::And,
        BinOp::Or(_) => Op::Or,
        BinOp::Eq(_) => Op::Eq,
        BinOp::Ne(_) => Op::Ne,
        BinOp::Lt(_) => Op::Lt,
        BinOp::Le(_) => Op::Le,
        BinOp::Gt(_) => Op::Gt,
        BinOp::Ge(_) => Op::Ge,
        _ => return None,
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

/// The only expression of a block.
fn only(block: &syn::Block) -> Option<&Expr> {
    match block.stmts.as_slice() {
        [Stmt::Expr(expr, None)] => Some(expr),
        _ => None,
    }
}

fn method(
    call: &syn::ExprMethodCall,
    constant: &dyn Fn(&syn::Path) -> Option<Number>,
    refused: &dyn Fn() -> syn::Error,
) -> syn::Result<Ex> {
    let name = call.method.to_string();
    let arguments: Vec<&Expr> = call.args.iter().collect();
    if let ("len", []) = (name.as_str(), arguments.as_slice()) {
        return Ok(Ex::Len(slice_of(&call.receiver).ok_or_else(refused)?));
    }
    if let ("all" | "any", [Expr::Closure(closure)]) = (name.as_str(), arguments.as_slice()) {
        let tensor = match &*call.receiver {
            Expr::MethodCall(iter) if iter.method == "iter" => slice_of(&iter.receiver),
            _ => None,
        };
        let element = match closure.inputs.iter().collect::<Vec<_>>()[..] {
            [Pat::Ident(name)] => Some(&name.ident),
            [Pat::Reference(reference)] => match &*reference.pat {
                Pat::Ident(name) => Some(&name.ident),
                _ => None,
            },
            _ => None,
        };
        let (tensor, element) = tensor.zip(element).ok_or_else(refused)?;
        let condition = Box::new(Ex::of(&closure.body, constant)?);
        return Ok(Ex::Every(name == "all", tensor, element.to_string(), condition));
    }
    if let ("contains", [x], Some(range)) = (name.as_str(), arguments.as_slice(), range_of(&call.receiver)) {
        let side = |expr: &Expr| Ex::of(expr, constant).map(Box::new);
        let x = side(x)?;
        let lower = range.start.as_deref().map(|low| side(low).map(|low| Ex::Binary(Op::Ge, x.clone(), low)));
        let below = if matches!(range.limits, syn::RangeLimits::HalfOpen(_)) { Op::Lt } else { Op::Le };
        let upper = range.end.as_deref().map(|high| side(high).map(|high| Ex::Binary(below, x.clone(), high)));
        return Ok(match (lower.transpose()?, upper.transpose()?) {
            (Some(lower), Some(upper)) => Ex::Binary(Op::And, Box::new(lower), Box::new(upper)),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => Ex::Is(Number::Bool(true)),
        });
    }
    let method = match (name.as_str(), arguments.len()) {
        ("is_finite", 0) => Method::IsFinite,
        ("is_nan", 0) => Method::IsNan,
        ("abs", 0) => Method::Abs,
        ("min", 1) => Method::Min,
        ("max", 1) => Method::Max,
        _ => return Err(refused()),
    };
    let argument = arguments.first().map(|expr| Ex::of(expr, constant).map(Box::new)).transpose()?;
    Ok(Ex::Call(method, Box::new(Ex::of(&call.receiver, constant)?), argument))
}

/// The range of `(low..high)`.
fn range_of(expr: &Expr) -> Option<&syn::ExprRange> {
    match expr {
        Expr::Range(range) => Some(range),
        Expr::Paren(inner) => range_of(&inner.expr),
        _ => None,
    }
}

/// The tensor of `tensor.as_slice()`.
fn slice_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::MethodCall(call) if call.method == "as_slice" => match &*call.receiver {
            Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
            _ => None,
        },
        _ => None,
    }
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
    fn what_has_no_value_says_why() {
        assert_eq!(value("n / 0"), Err(Stop::Arithmetic));
        assert_eq!(value("unknown + 1"), Err(Stop::Unknown));
        assert_eq!(value("n > 0.5"), Err(Stop::Arithmetic));
        let expr = syn::parse_str("compute(n)").expect("an expression");
        let error = Ex::of(&expr, &|_| None).expect_err("a call");
        assert!(error.to_string().contains("no compiled functions"), "{error}");
    }
}
