//! Reads an expression of Rust.

use syn::{BinOp, Expr, Lit, Pat, Stmt, UnOp};

use super::{Ex, Method, Number, Op, Target};
use crate::{constant::named_constant, path::last_name};

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
                        "f32" => Target::F32,
                        "i32" => Target::I32,
                        "u32" => Target::U32,
                        "i64" => Target::I64,
                        "u64" | "usize" => Target::U64,
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
}

/// It would take the time of all elements, for each element.
const NESTED: &str = "Rust text has no `all` or `any` inside of another: give the variant its condition in a program";

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
        if condition.has_every() {
            return Err(syn::Error::new_spanned(&call.method, NESTED));
        }
        return Ok(Ex::Every(name == "all", tensor, element.to_string(), condition));
    }
    if let ("contains", [x], Some(range)) = (name.as_str(), arguments.as_slice(), as_range(&call.receiver)) {
        let side = |expr: &Expr| Ex::of(expr, constant).map(Box::new);
        let [low, high] = [&range.start, &range.end].map(|bound| bound.as_deref().map(side).transpose());
        return Ok(Ex::Inside(side(x)?, low?, high?, matches!(range.limits, syn::RangeLimits::Closed(_))));
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
fn as_range(expr: &Expr) -> Option<&syn::ExprRange> {
    match expr {
        Expr::Range(range) => Some(range),
        Expr::Paren(inner) => as_range(&inner.expr),
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
