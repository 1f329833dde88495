//! A small evaluator of hooks with the semantics of a Rust release build, except that division by zero is 0.

use std::collections::HashMap;

use syn::{BinOp, Block, Expr, Lit, Member, Pat, Stmt, UnOp};

use crate::fuzz::generate::FIELDS;
use crate::fuzz::inputs::Inputs;
use crate::fuzz::methods::call;
use crate::fuzz::value::{V, cast, ints, literal, operate, wanted};

/// How control leaves a statement early.
enum Leave {
    Break,
    Continue,
    Return(V),
}
type Run<T> = Result<T, Leave>;

/// The result of the impl's only hook.
pub(crate) fn evaluate(item: &syn::ItemImpl, inputs: &Inputs) -> f32 {
    match result(item, inputs, V::F32(0.0)) {
        V::F32(x) => x,
        _ => panic!("no f32"),
    }
}

/// The value of a mask.
pub(crate) fn mask(item: &syn::ItemImpl, inputs: &Inputs) -> bool {
    result(item, inputs, V::Bool(true)) == V::Bool(true)
}

fn result(item: &syn::ItemImpl, inputs: &Inputs, want: V) -> V {
    let Some(syn::ImplItem::Fn(f)) = item.items.first() else { panic!("no hook") };
    let mut eval = Eval { inputs, scopes: vec![HashMap::from([("logit".to_owned(), vec![V::F32(inputs.logit)])])] };
    match eval.block(&f.block, want) {
        Ok(Some(x)) | Err(Leave::Return(x)) => x,
        _ => panic!("no value"),
    }
}

struct Eval<'a> {
    inputs: &'a Inputs,
    /// Each variable is an array of numbers; a scalar is an array of one.
    scopes: Vec<HashMap<String, Vec<V>>>,
}

impl Eval<'_> {
    /// `want` gives the type of untyped literals; its value is unused.
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
                p.elems.iter().zip(values).for_each(|(p, v)| self.set(p, vec![v]));
            }
            (_, Expr::Array(e)) => {
                let items: Run<Vec<V>> = e.elems.iter().map(|e| self.value(e, want[0])).collect();
                self.set(pat, items?);
            }
            (_, Expr::Struct(e)) => {
                let mut values = Vec::new();
                for field in &e.fields {
                    let (at, want) = field_of(&field.member);
                    values.push((at, self.value(&field.expr, want)?));
                }
                let mut whole = match &e.rest {
                    Some(base) => self.whole(base).clone(),
                    None => FIELDS.map(|(_, ty)| wanted(&syn::parse_str(ty.name()).expect("a type"))[0]).to_vec(),
                };
                values.into_iter().for_each(|(at, value)| whole[at] = value);
                self.set(pat, whole);
            }
            (_, Expr::Repeat(e)) => {
                let item = self.value(&e.expr, want[0])?;
                self.set(pat, vec![item; 4]);
            }
            _ => {
                let value = self.value(init, want[0])?;
                self.set(pat, vec![value]);
            }
        }
        Ok(())
    }

    fn set(&mut self, pat: &Pat, value: Vec<V>) {
        let Pat::Ident(p) = pat else { panic!("{pat:?}") };
        self.scopes.last_mut().expect("a scope").insert(p.ident.to_string(), value);
    }

    fn value(&mut self, e: &Expr, want: V) -> Run<V> {
        Ok(self.run(e, want)?.unwrap_or_else(|| panic!("no value: {e:?}")))
    }

    fn target(&mut self, e: &Expr) -> &mut V {
        let (e, i) = match e {
            Expr::Index(e) => (&*e.expr, self.index(&e.index)),
            Expr::Field(e) => (&*e.base, field_of(&e.member).0),
            e => (e, 0),
        };
        &mut self.whole(e)[i]
    }

    /// All of a variable: an array's elements, a struct's fields, or one number.
    fn whole(&mut self, e: &Expr) -> &mut Vec<V> {
        let Expr::Path(p) = e else { panic!("{e:?}") };
        let name = p.path.get_ident().expect("a name").to_string();
        self.scopes.iter_mut().rev().find_map(|s| s.get_mut(&name)).expect("a variable")
    }

    fn index(&mut self, e: &Expr) -> usize {
        match self.value(e, V::U64(0)) {
            Ok(V::U64(i)) => i as usize,
            Ok(V::I32(i)) => i as usize,
            _ => panic!("no index: {e:?}"),
        }
    }

    /// A value of the type that an expression determines by itself; untyped literals determine none.
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
                "MIN" if p.path.segments[0].ident == "i64" => V::I64(i64::MIN),
                "MIN" => V::I32(i32::MIN),
                "MAX" => match p.path.segments[0].ident.to_string().as_str() {
                    "i32" => V::I32(i32::MAX),
                    "u32" => V::U32(u32::MAX),
                    "u8" => V::U8(u8::MAX),
                    "i64" => V::I64(i64::MAX),
                    _ => V::U64(u64::MAX),
                },
                _ => *self.target(e),
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
                    _ => *self.target(e),
                }
            }
            Expr::Index(i) if matches!(&*i.expr, Expr::Path(_)) => *self.target(e),
            Expr::Index(i) => match self.value(&i.index, V::I32(0))? {
                V::I32(i) => V::I32(self.inputs.table[i.clamp(0, 3) as usize]),
                other => panic!("{other:?}"),
            },
            Expr::Unary(u) => match (&u.op, self.value(&u.expr, want)?) {
                (UnOp::Neg(_), V::F32(x)) => V::F32(-x),
                (UnOp::Neg(_), V::I32(x)) => V::I32(x.wrapping_neg()),
                (UnOp::Neg(_), V::I64(x)) => V::I64(x.wrapping_neg()),
                (UnOp::Not(_), V::Bool(x)) => V::Bool(!x),
                (UnOp::Not(_), x) => ints!(x, x, |x, _y, v| v(!x), panic!("{e:?}")),
                (_, x) => panic!("{x:?}"),
            },
            Expr::Cast(c) => cast(self.value(&c.expr, V::I32(0))?, wanted(&c.ty)[0]),
            Expr::Binary(b) => return self.binary(b, want),
            Expr::Assign(a) => {
                let want = *self.target(&a.left);
                *self.target(&a.left) = self.value(&a.right, want)?;
                return Ok(None);
            }
            Expr::MethodCall(m) => self.method(m, want)?,
            // `space::plain(index)`
            Expr::Call(c) if matches!(&*c.func, Expr::Path(p) if p.path.segments[0].ident == "space") => {
                self.value(&c.args[0], V::I32(0))?
            }
            Expr::Call(c) => match self.value(&c.args[0], V::U32(0))? {
                V::U32(bits) => V::F32(f32::from_bits(bits)),
                V::I32(x) => V::I64(x.into()),
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
                        self.scopes.last_mut().expect("a scope").insert(p.ident.to_string(), vec![subject]);
                    }
                    if matches(pat, subject)
                        && guard.map_or(Ok(V::Bool(true)), |g| self.value(g, V::Bool(true)))? == V::Bool(true)
                    {
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
            self.set(&f.pat, vec![i]);
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
                    *self.target(&b.left) = value;
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
        let by_u32 = matches!(
            name.as_str(),
            "rotate_left" | "rotate_right" | "pow" | "wrapping_pow" | "wrapping_shl" | "wrapping_shr"
        );
        let mut args = Vec::new();
        for arg in &m.args {
            args.push(self.value(arg, if by_u32 { V::U32(0) } else { x })?);
        }
        Ok(call(&name, x, &args))
    }
}

/// The index of a field, and a value of its type.
fn field_of(member: &Member) -> (usize, V) {
    let Member::Named(name) = member else { panic!("{member:?}") };
    let at = FIELDS.iter().position(|(field, _)| name == field).expect("a field");
    (at, wanted(&syn::parse_str(FIELDS[at].1.name()).expect("a type"))[0])
}

fn quote_op(op: &BinOp) -> String {
    quote::ToTokens::to_token_stream(op).to_string()
}

/// Whether operands and result of an operator have the same type.
fn arithmetic(op: &BinOp) -> bool {
    !matches!(quote_op(op).as_str(), "==" | "!=" | "<" | "<=" | ">" | ">=" | "&&" | "||")
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
