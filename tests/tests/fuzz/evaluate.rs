//! A small evaluator of hooks, with the semantics of a release build of Rust. Division by zero, a panic there, is 0.

use std::collections::HashMap;

use rand::{Rng, rngs::SmallRng};
use syn::{BinOp, Block, Expr, Lit, Member, Pat, Stmt, UnOp};

/// What a hook reads.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) a: i32,
    pub(crate) n: i32,
    pub(crate) u: u32,
    pub(crate) flag: bool,
    pub(crate) x: f32,
    pub(crate) table: [i32; 4],
    pub(crate) logit: f32,
    /// `qo_pos`, `qo_head`, `kv_pos`.
    pub(crate) at: [i32; 3],
}

impl Inputs {
    pub(crate) fn random(rng: &mut SmallRng) -> Inputs {
        let int = |rng: &mut SmallRng| match rng.random_range(0..4) {
            0 => [0, -1, i32::MIN, i32::MAX][rng.random_range(0..4)],
            1 => rng.random_range(-9..40),
            _ => rng.random(),
        };
        let float = |rng: &mut SmallRng| match rng.random_range(0..8) {
            0 => [f32::NAN, f32::INFINITY, -0.0, 0.5, -4e9][rng.random_range(0..5)],
            // `fminf` of C libraries takes signalling NaNs for more than others do
            1 => Some(f32::from_bits(rng.random())).filter(|x| !x.is_nan()).unwrap_or(f32::NAN),
            _ => rng.random_range(-300.0..300.0),
        };
        Inputs {
            a: int(rng),
            n: int(rng),
            u: int(rng) as u32,
            flag: rng.random(),
            x: float(rng),
            table: [int(rng), int(rng), int(rng), int(rng)],
            logit: float(rng),
            at: [rng.random_range(-20..200), rng.random_range(0..8), rng.random_range(0..1 << 20)],
        }
    }

    /// `LogitIndex`, as in C.
    pub(crate) fn words(&self) -> [i32; 10] {
        let [qo_pos, qo_head, kv_pos] = self.at;
        [0, 0, qo_pos, 0, qo_head, 0, 0, 0, kv_pos, 0]
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum V {
    I32(i32),
    U32(u32),
    U8(u8),
    U64(u64),
    F32(f32),
    Bool(bool),
}

/// How control leaves a statement early.
enum Leave {
    Break,
    Continue,
    Return(V),
}
type Run<T> = Result<T, Leave>;

/// The result of the impl's only hook.
pub(crate) fn evaluate(item: &syn::ItemImpl, inputs: &Inputs) -> f32 {
    let Some(syn::ImplItem::Fn(f)) = item.items.first() else { panic!("no hook") };
    let mut eval = Eval { inputs, scopes: vec![HashMap::from([("logit".to_owned(), V::F32(inputs.logit))])] };
    match eval.block(&f.block, V::F32(0.0)) {
        Ok(Some(V::F32(x))) | Err(Leave::Return(V::F32(x))) => x,
        _ => panic!("no f32"),
    }
}

struct Eval<'a> {
    inputs: &'a Inputs,
    scopes: Vec<HashMap<String, V>>,
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
            _ => $other,
        }
    };
}

impl Eval<'_> {
    /// `want` shows the type that a literal takes, its value means nothing.
    fn block(&mut self, block: &Block, want: V) -> Run<Option<V>> {
        self.scopes.push(HashMap::new());
        let mut result = Ok(None);
        for stmt in &block.stmts {
            result = match stmt {
                Stmt::Local(local) => self.local(local).map(|()| None),
                Stmt::Expr(e, _) => self.run(e, want),
                other => panic!("{other:?}"),
            };
            if result.is_err() {
                break;
            }
        }
        self.scopes.pop();
        result
    }

    fn local(&mut self, local: &syn::Local) -> Run<()> {
        let init = &local.init.as_ref().expect("a value").expr;
        let (pat, want) = match &local.pat {
            Pat::Type(p) => (&*p.pat, wanted(&p.ty)),
            pat => (pat, vec![V::I32(0)]),
        };
        match (pat, &**init) {
            (Pat::Tuple(p), Expr::Tuple(e)) => {
                let mut values = Vec::new();
                for (i, e) in e.elems.iter().enumerate() {
                    values.push(self.value(e, *want.get(i).unwrap_or(&V::I32(0)))?);
                }
                p.elems.iter().zip(values).for_each(|(p, v)| self.set(p, v));
            }
            _ => {
                let value = self.value(init, want[0])?;
                self.set(pat, value);
            }
        }
        Ok(())
    }

    fn set(&mut self, pat: &Pat, value: V) {
        let Pat::Ident(p) = pat else { panic!("{pat:?}") };
        self.scopes.last_mut().expect("a scope").insert(p.ident.to_string(), value);
    }

    fn value(&mut self, e: &Expr, want: V) -> Run<V> {
        Ok(self.run(e, want)?.unwrap_or_else(|| panic!("no value: {e:?}")))
    }

    fn place(&mut self, e: &Expr) -> &mut V {
        let Expr::Path(p) = e else { panic!("{e:?}") };
        let name = p.path.get_ident().expect("a name").to_string();
        self.scopes.iter_mut().rev().find_map(|s| s.get_mut(&name)).expect("a variable")
    }

    /// A value of the type that an expression shows by itself; literals show none.
    fn shown(&mut self, e: &Expr) -> Option<V> {
        match e {
            Expr::Lit(l) => match &l.lit {
                Lit::Int(i) if i.suffix().is_empty() => None,
                _ => self.value(e, V::I32(0)).ok(),
            },
            Expr::Paren(p) => self.shown(&p.expr),
            Expr::Unary(u) => self.shown(&u.expr),
            Expr::Binary(b) if matches!(b.op, BinOp::Shl(_) | BinOp::Shr(_)) => self.shown(&b.left),
            Expr::Binary(b) if arithmetic(&b.op) => self.shown(&b.left).or_else(|| self.shown(&b.right)),
            Expr::If(i) => self.tail(&i.then_branch).or_else(|| self.shown(&i.else_branch.as_ref()?.1)),
            Expr::Match(m) => m.arms.iter().find_map(|arm| self.shown(&arm.body)),
            Expr::Block(b) => self.tail(&b.block),
            _ => self.value(e, V::I32(0)).ok(),
        }
    }

    fn tail(&mut self, block: &Block) -> Option<V> {
        self.scopes.push(HashMap::new());
        let mut shown = None;
        for stmt in &block.stmts {
            match stmt {
                Stmt::Local(local) => drop(self.local(local)),
                Stmt::Expr(e, None) => shown = self.shown(e),
                _ => {}
            }
        }
        self.scopes.pop();
        shown
    }

    fn run(&mut self, e: &Expr, want: V) -> Run<Option<V>> {
        Ok(Some(match e {
            Expr::Paren(p) => return self.run(&p.expr, want),
            Expr::Block(b) => return self.block(&b.block, want),
            Expr::Lit(l) => literal(&l.lit, want),
            Expr::Path(p) => match p.path.segments.last().expect("a name").ident.to_string().as_str() {
                "INFINITY" => V::F32(f32::INFINITY),
                "NAN" => V::F32(f32::NAN),
                "MIN" => V::I32(i32::MIN),
                "MAX" => match p.path.segments[0].ident.to_string().as_str() {
                    "i32" => V::I32(i32::MAX),
                    "u32" => V::U32(u32::MAX),
                    "u8" => V::U8(u8::MAX),
                    _ => V::U64(u64::MAX),
                },
                _ => *self.place(e),
            },
            Expr::Field(f) => {
                let Member::Named(name) = &f.member else { panic!("{f:?}") };
                match name.to_string().as_str() {
                    "a" => V::I32(self.inputs.a),
                    "n" => V::I32(self.inputs.n),
                    "u" => V::U32(self.inputs.u),
                    "flag" => V::Bool(self.inputs.flag),
                    "x" => V::F32(self.inputs.x),
                    "qo_pos" => V::I32(self.inputs.at[0]),
                    "qo_head" => V::I32(self.inputs.at[1]),
                    "kv_pos" => V::I32(self.inputs.at[2]),
                    other => panic!("{other}"),
                }
            }
            Expr::Index(i) => match self.value(&i.index, V::I32(0))? {
                V::I32(i) => V::I32(self.inputs.table[i.clamp(0, 3) as usize]),
                other => panic!("{other:?}"),
            },
            Expr::Unary(u) => match (&u.op, self.value(&u.expr, want)?) {
                (UnOp::Neg(_), V::F32(x)) => V::F32(-x),
                (UnOp::Neg(_), V::I32(x)) => V::I32(x.wrapping_neg()),
                (UnOp::Not(_), V::Bool(x)) => V::Bool(!x),
                (UnOp::Not(_), x) => ints!(x, x, |x, _y, v| v(!x), panic!("{e:?}")),
                (_, x) => panic!("{x:?}"),
            },
            Expr::Cast(c) => cast(self.value(&c.expr, V::I32(0))?, wanted(&c.ty)[0]),
            Expr::Binary(b) => return self.binary(b, want),
            Expr::Assign(a) => {
                let want = *self.place(&a.left);
                *self.place(&a.left) = self.value(&a.right, want)?;
                return Ok(None);
            }
            Expr::MethodCall(m) => self.method(m, want)?,
            Expr::Call(c) => match self.value(&c.args[0], V::U32(0))? {
                V::U32(bits) => V::F32(f32::from_bits(bits)),
                other => panic!("{other:?}"),
            },
            Expr::If(i) => {
                return match (self.value(&i.cond, V::Bool(true))?, &i.else_branch) {
                    (V::Bool(true), _) => self.block(&i.then_branch, want),
                    (_, Some((_, other))) => self.run(other, want),
                    _ => Ok(None),
                };
            }
            Expr::Match(m) => {
                let want = self.shown(e).unwrap_or(want);
                let subject = self.value(&m.expr, V::I32(0))?;
                for arm in &m.arms {
                    let (pat, guard) = match &arm.pat {
                        Pat::Guard(p) => (&*p.pat, Some(&*p.guard)),
                        pat => (pat, None),
                    };
                    if let Pat::Ident(p) = pat {
                        self.scopes.last_mut().expect("a scope").insert(p.ident.to_string(), subject);
                    }
                    let open = guard.map_or(Ok(V::Bool(true)), |g| self.value(g, V::Bool(true)))? == V::Bool(true);
                    if open && matches(pat, subject) {
                        return self.run(&arm.body, want);
                    }
                }
                panic!("no arm")
            }
            Expr::ForLoop(f) => return self.for_loop(f).map(|()| None),
            Expr::Return(r) => return Err(Leave::Return(self.value(r.expr.as_ref().expect("a value"), V::F32(0.0))?)),
            Expr::Break(_) => return Err(Leave::Break),
            Expr::Continue(_) => return Err(Leave::Continue),
            other => panic!("{other:?}"),
        }))
    }

    fn for_loop(&mut self, f: &syn::ExprForLoop) -> Run<()> {
        let Expr::Range(range) = &*f.expr else { panic!("{f:?}") };
        let (from, to) = (range.start.as_ref().expect("from"), range.end.as_ref().expect("to"));
        let want = self.shown(from).or_else(|| self.shown(to)).unwrap_or(V::I32(0));
        let (from, to) = (self.value(from, want)?, self.value(to, want)?);
        let closed = i128::from(matches!(range.limits, syn::RangeLimits::Closed(_)));
        let wide = |x| ints!(x, x, |x, _y, _v| i128::from(x), panic!("{x:?}"));
        for i in wide(from)..wide(to) + closed {
            let i = ints!(from, from, |_x, _y, v| v(i as _), panic!("{from:?}"));
            self.scopes.push(HashMap::new());
            self.set(&f.pat, i);
            let result = self.block(&f.body, V::I32(0));
            self.scopes.pop();
            match result {
                Err(Leave::Break) => break,
                Err(Leave::Return(x)) => return Err(Leave::Return(x)),
                _ => {}
            }
        }
        Ok(())
    }

    fn binary(&mut self, b: &syn::ExprBinary, want: V) -> Run<Option<V>> {
        use BinOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
        if let And(_) | Or(_) = b.op {
            let stop = matches!(b.op, Or(_));
            if self.value(&b.left, V::Bool(true))? == V::Bool(stop) {
                return Ok(Some(V::Bool(stop)));
            }
            return self.run(&b.right, V::Bool(true));
        }
        let shifts = matches!(b.op, BinOp::Shl(_) | BinOp::Shr(_) | BinOp::ShlAssign(_) | BinOp::ShrAssign(_));
        let fallback = if arithmetic(&b.op) { want } else { V::I32(0) };
        let left = self.shown(&b.left).or_else(|| if shifts { None } else { self.shown(&b.right) }).unwrap_or(fallback);
        let right_want = if shifts { V::I32(0) } else { left };
        let (x, y) = (self.value(&b.left, left)?, self.value(&b.right, right_want)?);
        let compare = x.partial(y);
        let result = match b.op {
            Eq(_) => V::Bool(x == y),
            Ne(_) => V::Bool(x != y),
            Lt(_) => V::Bool(compare.is_some_and(std::cmp::Ordering::is_lt)),
            Le(_) => V::Bool(compare.is_some_and(std::cmp::Ordering::is_le)),
            Gt(_) => V::Bool(compare.is_some_and(std::cmp::Ordering::is_gt)),
            Ge(_) => V::Bool(compare.is_some_and(std::cmp::Ordering::is_ge)),
            _ => {
                let op = quote_op(&b.op);
                let value = operate(op.trim_end_matches('='), x, y);
                if op.ends_with('=') {
                    *self.place(&b.left) = value;
                    return Ok(None);
                }
                value
            }
        };
        Ok(Some(result))
    }

    fn method(&mut self, m: &syn::ExprMethodCall, want: V) -> Run<V> {
        let receiver = self.shown(&m.receiver).unwrap_or(want);
        let x = self.value(&m.receiver, receiver)?;
        let name = m.method.to_string();
        let by_u32 = matches!(name.as_str(), "rotate_left" | "rotate_right" | "pow");
        let mut args = Vec::new();
        for arg in &m.args {
            args.push(self.value(arg, if by_u32 { V::U32(0) } else { x })?);
        }
        Ok(call(&name, x, &args))
    }
}

impl V {
    fn partial(self, other: V) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (V::F32(a), V::F32(b)) => a.partial_cmp(&b),
            (V::Bool(a), V::Bool(b)) => a.partial_cmp(&b),
            (a, b) => ints!(a, b, |x, y, _v| x.partial_cmp(&y), None),
        }
    }
}

fn quote_op(op: &BinOp) -> String {
    quote::ToTokens::to_token_stream(op).to_string()
}

/// Whose operands and result are of one type.
fn arithmetic(op: &BinOp) -> bool {
    !matches!(quote_op(op).as_str(), "==" | "!=" | "<" | "<=" | ">" | ">=" | "&&" | "||")
}

fn wanted(ty: &syn::Type) -> Vec<V> {
    match ty {
        syn::Type::Tuple(t) => t.elems.iter().flat_map(wanted).collect(),
        syn::Type::Path(p) => vec![match p.path.segments[0].ident.to_string().as_str() {
            "i32" => V::I32(0),
            "u32" => V::U32(0),
            "u8" => V::U8(0),
            "u64" => V::U64(0),
            "f32" => V::F32(0.0),
            _ => V::Bool(false),
        }],
        other => panic!("{other:?}"),
    }
}

fn literal(lit: &Lit, want: V) -> V {
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

fn matches(pat: &Pat, subject: V) -> bool {
    let number = |e: &Expr| match quote::ToTokens::to_token_stream(e).to_string().replace(' ', "").as_str() {
        "i32::MIN" => V::I32(i32::MIN),
        text => V::I32(text.parse().expect("a number")),
    };
    match pat {
        Pat::Wild(_) | Pat::Ident(_) => true,
        Pat::Or(p) => p.cases.iter().any(|p| matches(p, subject)),
        Pat::Lit(l) => number(&syn::parse2(quote::ToTokens::to_token_stream(l)).expect("a literal")) == subject,
        Pat::Range(r) => {
            let (from, to) = (r.start.as_ref().expect("from"), r.end.as_ref().expect("to"));
            number(from).partial(subject).is_some_and(std::cmp::Ordering::is_le)
                && subject.partial(number(to)).is_some_and(std::cmp::Ordering::is_le)
        }
        other => panic!("{other:?}"),
    }
}

fn cast(x: V, to: V) -> V {
    macro_rules! to {
        ($x:expr) => {
            match to {
                V::I32(_) => V::I32($x as i32),
                V::U32(_) => V::U32($x as u32),
                V::U8(_) => V::U8($x as u8),
                V::U64(_) => V::U64($x as u64),
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
        V::F32(x) => to!(x),
        V::Bool(x) => to!(u8::from(x)),
    }
}

fn operate(op: &str, x: V, y: V) -> V {
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

fn call(name: &str, x: V, args: &[V]) -> V {
    let y = args.first().copied().unwrap_or(x);
    match (name, x, y) {
        ("is_nan", V::F32(x), _) => V::Bool(x.is_nan()),
        ("to_bits", V::F32(x), _) => V::U32(x.to_bits()),
        ("mul_add", V::F32(x), V::F32(y)) => match args[1] {
            V::F32(z) => V::F32(x.mul_add(y, z)),
            z => panic!("{z:?}"),
        },
        ("abs_diff", V::I32(x), V::I32(y)) => V::U32(x.abs_diff(y)),
        (_, V::F32(x), V::F32(y)) => V::F32(match name {
            "min" => x.min(y),
            "max" => x.max(y),
            "abs" => x.abs(),
            "floor" => x.floor(),
            "ceil" => x.ceil(),
            "trunc" => x.trunc(),
            "round" => x.round(),
            "round_ties_even" => x.round_ties_even(),
            "sqrt" => x.sqrt(),
            _ => panic!("{name}"),
        }),
        ("abs", V::I32(x), _) => V::I32(x.wrapping_abs()),
        ("signum", V::I32(x), _) => V::I32(x.signum()),
        ("rotate_left" | "rotate_right" | "pow", _, V::U32(n)) => ints!(
            x,
            x,
            |x, _y, v| v(match name {
                "rotate_left" => x.rotate_left(n),
                "rotate_right" => x.rotate_right(n),
                _ => x.wrapping_pow(n),
            }),
            panic!("{x:?}")
        ),
        ("count_ones" | "leading_zeros" | "trailing_zeros", ..) => ints!(
            x,
            x,
            |x, _y, _v| V::U32(match name {
                "count_ones" => x.count_ones(),
                "leading_zeros" => x.leading_zeros(),
                _ => x.trailing_zeros(),
            }),
            panic!("{x:?}")
        ),
        _ => ints!(
            x,
            y,
            |x, y, v| v(match name {
                "min" => x.min(y),
                "max" => x.max(y),
                "wrapping_add" => x.wrapping_add(y),
                "wrapping_mul" => x.wrapping_mul(y),
                "saturating_add" => x.saturating_add(y),
                "saturating_sub" => x.saturating_sub(y),
                "rem_euclid" =>
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_rem_euclid(y)
                    },
                "div_euclid" =>
                    if y == 0 {
                        0
                    } else {
                        x.wrapping_div_euclid(y)
                    },
                _ => panic!("{name}"),
            }),
            panic!("{x:?}.{name}({y:?})")
        ),
    }
}
