//! A mask over a whole tile: what the macros emit for `mask_over` and helpers, as a tree that is evaluated.

use std::{cell::Cell, collections::HashMap};

use attn_core::lang::{
    ConstValue, Tile, Tristate,
    interval::{self, Parts, Val, coordinate, of, one, single, tristate},
};
use syn::{Block, Expr, Lit, Member, Pat, Stmt, UseTree};

use crate::{budget, expansion::last_name, field::Value, kept::kept_str};

/// A function over abstract values.
#[derive(Debug)]
pub(crate) struct TileForm {
    lets: Vec<Node>,
    value: Node,
}

#[derive(Debug)]
enum Node {
    Known(Val),
    /// A coordinate of the tile.
    Coordinate(Coordinate),
    /// An argument of a helper.
    Arg(usize),
    /// A `let` before.
    Local(usize),
    /// A scalar parameter.
    Scalar(usize),
    /// An element of a parameter tensor.
    Element(usize, Vec<Node>),
    Unary(fn(Val) -> Val, Box<Node>),
    Binary(fn(Val, Val) -> Val, Box<[Node; 2]>),
    Ternary(fn(Val, Val, Val) -> Val, Box<[Node; 3]>),
    Quaternary(fn(Val, Val, Val, Val) -> Val, Box<[Node; 4]>),
    Helper(&'static TileForm, Vec<Node>),
    /// The index of the hook.
    Tile,
    /// A tuple, a struct or an array.
    Many(Vec<(&'static str, Node)>),
    Part(Box<Node>, String),
    Loop(Box<Loop>),
}

/// A loop over abstract values. In a step its variable and the values that it changes are the locals from `first` on.
#[derive(Debug)]
struct Loop {
    bounds: [Node; 2],
    inclusive: bool,
    before: Vec<Node>,
    first: usize,
    lets: Vec<Node>,
    after: Vec<Node>,
}

/// The bounds of a coordinate.
type Coordinate = fn(&Tile) -> (i32, i32);

/// What names in a form stand for.
pub(crate) struct Scope<'a> {
    /// The number of a field.
    pub(crate) field: &'a dyn Fn(&str) -> Option<usize>,
    /// A constant, or a variant of an enum.
    pub(crate) constant: &'a dyn Fn(&syn::Path) -> Option<ConstValue>,
    /// A helper by its Rust name.
    pub(crate) helper: &'a dyn Fn(&str) -> Option<&'static TileForm>,
}

impl TileForm {
    /// Reads the body of `mask_over`, or of a helper's `over`. `None` where it is not in the form that macros emit:
    /// nothing is known of a tile then.
    pub(crate) fn of(body: &Block, scope: &Scope<'_>) -> Option<TileForm> {
        let mut reader = Reader { scope, locals: HashMap::new(), lets: Vec::new() };
        let value = reader.block(body)?;
        Some(TileForm { lets: reader.lets, value })
    }

    /// The mask of a tile.
    pub(crate) fn mask(&self, tile: &Tile, fields: &[Box<dyn Value>]) -> Tristate {
        let left = Cell::new(budget::OF_TILE);
        tristate(one(&self.value(&Inputs { tile: Some(tile), args: &[], fields, left: &left })))
    }

    fn value(&self, inputs: &Inputs<'_>) -> Parts {
        let mut locals = Vec::with_capacity(self.lets.len());
        for node in &self.lets {
            let value = node.value(inputs, &locals);
            locals.push(value);
        }
        self.value.value(inputs, &locals)
    }
}

struct Inputs<'a> {
    tile: Option<&'a Tile>,
    args: &'a [Parts],
    fields: &'a [Box<dyn Value>],
    /// The operations that are left: what is called twice, or in a loop, is evaluated as often.
    left: &'a Cell<u32>,
}

impl Inputs<'_> {
    /// Counts an operation. `false` where too many were made: every value is unknown then.
    fn goes_on(&self) -> bool {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }
}

impl Node {
    fn value(&self, inputs: &Inputs<'_>, locals: &[Parts]) -> Parts {
        if !inputs.goes_on() {
            return Parts::One(Val::Any);
        }
        match self {
            Node::Arg(i) => inputs.args.get(*i).cloned().unwrap_or(Parts::One(Val::Any)),
            Node::Local(i) => locals[*i].clone(),
            Node::Helper(form, args) => {
                let args: Vec<Parts> = args.iter().map(|node| node.value(inputs, locals)).collect();
                form.value(&Inputs { tile: None, args: &args, ..*inputs })
            }
            Node::Tile => inputs.tile.map_or(Parts::One(Val::Any), interval::tile),
            Node::Many(parts) => {
                Parts::Many(parts.iter().map(|(name, node)| (*name, node.value(inputs, locals))).collect())
            }
            Node::Part(of, name) => interval::part(&of.value(inputs, locals), name),
            Node::Loop(it) => it.value(inputs, locals),
            node => single(node.scalar(inputs, locals)),
        }
    }

    fn scalar(&self, inputs: &Inputs<'_>, locals: &[Parts]) -> Val {
        if !inputs.goes_on() {
            return Val::Any;
        }
        let all = |nodes: &[Node]| nodes.iter().map(|node| node.scalar(inputs, locals)).collect::<Vec<_>>();
        match self {
            Node::Known(value) => *value,
            Node::Coordinate(bounds) => inputs.tile.map_or(Val::Any, |tile| {
                let (min, max) = bounds(tile);
                coordinate(min, max)
            }),
            Node::Local(i) => one(&locals[*i]),
            Node::Scalar(i) => inputs.fields.get(*i).map_or(Val::Any, |field| field.over_tile()),
            Node::Element(i, indices) => {
                inputs.fields.get(*i).map_or(Val::Any, |field| field.element_over_tile(&all(indices)))
            }
            Node::Unary(f, x) => f(x.scalar(inputs, locals)),
            Node::Binary(f, xs) => f(xs[0].scalar(inputs, locals), xs[1].scalar(inputs, locals)),
            Node::Ternary(f, xs) => {
                f(xs[0].scalar(inputs, locals), xs[1].scalar(inputs, locals), xs[2].scalar(inputs, locals))
            }
            Node::Quaternary(f, xs) => {
                let [a, b, c, d] = [0, 1, 2, 3].map(|i| xs[i].scalar(inputs, locals));
                f(a, b, c, d)
            }
            node => one(&node.value(inputs, locals)),
        }
    }
}

impl Loop {
    fn value(&self, inputs: &Inputs<'_>, locals: &[Parts]) -> Parts {
        let [from, to] = [0, 1].map(|i| self.bounds[i].scalar(inputs, locals));
        let mut state: Vec<Val> = self.before.iter().map(|node| node.scalar(inputs, locals)).collect();
        let mut inner = locals.to_vec();
        inner.resize(self.first, Parts::One(Val::Any));
        interval::run(from, to, self.inclusive, &mut state, &mut |i, state| {
            inner.truncate(self.first);
            inner.push(single(i));
            inner.extend(state.iter().map(|value| single(*value)));
            for node in &self.lets {
                let value = node.value(inputs, &inner);
                inner.push(value);
            }
            self.after.iter().map(|node| node.scalar(inputs, &inner)).collect()
        });
        let names = (0..).map(|k: usize| kept_number(k));
        Parts::Many(names.zip(state.into_iter().map(single)).collect())
    }
}

/// The name of a value after a loop.
fn kept_number(k: usize) -> &'static str {
    const NAMES: [&str; 16] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"];
    NAMES.get(k).copied().unwrap_or("")
}

struct Reader<'a> {
    scope: &'a Scope<'a>,
    locals: HashMap<String, usize>,
    lets: Vec<Node>,
}

impl Reader<'_> {
    fn block(&mut self, block: &Block) -> Option<Node> {
        let (last, before) = block.stmts.split_last()?;
        // `use path as __helper` of a call
        let mut helper = None;
        for stmt in before {
            match stmt {
                Stmt::Local(_) => self.let_of(stmt)?,
                Stmt::Item(syn::Item::Use(item)) => helper = helper.or_else(|| renamed(&item.tree)),
                _ => return None,
            }
        }
        let Stmt::Expr(expr, None) = last else { return None };
        match helper {
            Some(name) => self.helper_call(&name, expr),
            None => self.node(expr),
        }
    }

    fn helper_call(&mut self, name: &str, expr: &Expr) -> Option<Node> {
        let Expr::Call(call) = expr else { return None };
        // `over` or `parts`: both give the same of a form
        let Some(Expr::Array(array)) = call.args.first() else { return None };
        let args = array.elems.iter().map(|arg| self.node(arg)).collect::<Option<Vec<_>>>()?;
        Some((self.scope.helper)(name).map_or(Node::Known(Val::Any), |form| Node::Helper(form, args)))
    }

    fn node(&mut self, expr: &Expr) -> Option<Node> {
        match expr {
            Expr::Block(block) => self.block(&block.block),
            Expr::Paren(inner) => self.node(&inner.expr),
            Expr::Reference(inner) => self.node(&inner.expr),
            Expr::MethodCall(call) if call.method == "clone" => self.node(&call.receiver),
            // a value after a loop
            Expr::Index(index) => match &*index.index {
                Expr::Lit(syn::ExprLit { lit: Lit::Int(k), .. }) => {
                    Some(Node::Part(Box::new(self.node(&index.expr)?), k.base10_digits().to_owned()))
                }
                _ => None,
            },
            Expr::Group(inner) => self.node(&inner.expr),
            Expr::Path(path) => {
                let name = last_name(&path.path);
                match (name.as_str(), self.locals.get(&name)) {
                    (_, Some(local)) => Some(Node::Local(*local)),
                    ("Any", None) => Some(Node::Known(Val::Any)),
                    (name, None) => name.strip_prefix('a')?.parse().ok().map(Node::Arg),
                }
            }
            Expr::Call(call) => {
                let Expr::Path(function) = &*call.func else { return None };
                let args: Vec<&Expr> = call.args.iter().collect();
                match (last_name(&function.path).as_str(), args.as_slice()) {
                    // the mask reads a Tristate of it
                    ("tristate", [value]) => self.node(value),
                    ("coordinate", [Expr::Field(min), Expr::Field(_)]) => coordinate_of(min).map(Node::Coordinate),
                    ("of", [value]) => self.scalar(value),
                    ("wide", [value]) => self.wide(value),
                    // the form's values have parts or none
                    ("one" | "single", [value]) => self.node(value),
                    ("tile", [_]) => Some(Node::Tile),
                    ("part", [of, Expr::Lit(name)]) => match &name.lit {
                        Lit::Str(name) => Some(Node::Part(Box::new(self.node(of)?), name.value())),
                        _ => None,
                    },
                    ("many", [Expr::Array(parts)]) => {
                        let parts = parts.elems.iter().map(|part| self.named(part)).collect::<Option<Vec<_>>>()?;
                        Some(Node::Many(parts))
                    }
                    ("repeated", [from, to, inclusive, before, step]) => {
                        self.repeated([from, to], inclusive, before, step)
                    }
                    ("element", [Expr::Reference(table), Expr::Reference(indices)]) => {
                        let Expr::Array(indices) = &*indices.expr else { return None };
                        let indices = indices.elems.iter().map(|i| self.node(i)).collect::<Option<Vec<_>>>()?;
                        Some(Node::Element(self.field(&table.expr)?, indices))
                    }
                    (name, [x]) => Some(Node::Unary(unary(name)?, Box::new(self.node(x)?))),
                    (name, [x, y]) => Some(Node::Binary(binary(name)?, Box::new([self.node(x)?, self.node(y)?]))),
                    (name, [x, y, z]) => {
                        let xs = [self.node(x)?, self.node(y)?, self.node(z)?];
                        Some(Node::Ternary(ternary(name)?, Box::new(xs)))
                    }
                    (name, [x, y, z, w]) => {
                        let xs = [self.node(x)?, self.node(y)?, self.node(z)?, self.node(w)?];
                        Some(Node::Quaternary(quaternary(name)?, Box::new(xs)))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The argument of `wide`: a constant or a literal of 64 bits.
    fn wide(&self, expr: &Expr) -> Option<Node> {
        Some(Node::Known(match expr {
            Expr::Lit(syn::ExprLit { lit: Lit::Int(x), .. }) if x.suffix() == "i64" => {
                interval::wide(x.base10_parse::<i64>().ok()?)
            }
            Expr::Lit(syn::ExprLit { lit: Lit::Int(x), .. }) => interval::wide(x.base10_parse::<u64>().ok()?),
            Expr::Path(path) => match (self.scope.constant)(&path.path)? {
                ConstValue::U64(x) => interval::wide(x),
                ConstValue::I64(x) => interval::wide(x),
                _ => return None,
            },
            _ => return None,
        }))
    }

    /// `("name", part)`.
    fn named(&mut self, part: &Expr) -> Option<(&'static str, Node)> {
        let Expr::Tuple(part) = part else { return None };
        let (Expr::Lit(syn::ExprLit { lit: Lit::Str(name), .. }), value) = (part.elems.first()?, part.elems.get(1)?)
        else {
            return None;
        };
        Some((kept_str(name.value()), self.node(value)?))
    }

    /// `repeated(from, to, inclusive, [before], |i, [states]| { lets; [after] })`.
    fn repeated(&mut self, bounds: [&Expr; 2], inclusive: &Expr, before: &Expr, step: &Expr) -> Option<Node> {
        let bounds = [self.node(bounds[0])?, self.node(bounds[1])?];
        let inclusive = matches!(inclusive, Expr::Lit(syn::ExprLit { lit: Lit::Bool(b), .. }) if b.value);
        let (Expr::Array(before), Expr::Closure(step)) = (before, step) else { return None };
        let before = before.elems.iter().map(|value| self.node(value)).collect::<Option<Vec<_>>>()?;
        let Expr::Block(body) = &*step.body else { return None };
        // the lets of the step are read in a scope of its own
        let (outer, lets) = (self.locals.clone(), self.lets.len());
        let mut at = lets;
        for pat in step.inputs.iter().flat_map(names_of) {
            self.locals.insert(pat, at);
            self.lets.push(Node::Known(Val::Any));
            at += 1;
        }
        let (Stmt::Expr(Expr::Array(after), None), stmts) = body.block.stmts.split_last()? else { return None };
        for stmt in stmts {
            self.let_of(stmt)?;
        }
        let after = after.elems.iter().map(|value| self.node(value)).collect::<Option<Vec<_>>>()?;
        let inner = self.lets.split_off(at);
        self.lets.truncate(lets);
        self.locals = outer;
        Some(Node::Loop(Box::new(Loop { bounds, inclusive, before, first: lets, lets: inner, after })))
    }

    fn let_of(&mut self, stmt: &Stmt) -> Option<()> {
        let Stmt::Local(local) = stmt else { return None };
        let Pat::Ident(name) = &local.pat else { return None };
        let node = self.node(&local.init.as_ref()?.expr)?;
        self.lets.push(node);
        self.locals.insert(name.ident.to_string(), self.lets.len() - 1);
        Some(())
    }

    /// The number of the field of `self.name`.
    fn field(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Field(field) => match &field.member {
                Member::Named(name) => (self.scope.field)(name.to_string().trim_start_matches("r#")),
                Member::Unnamed(_) => None,
            },
            _ => None,
        }
    }

    /// The argument of `of`: a parameter, a literal, a constant, or `Enum::Variant as i32`.
    fn scalar(&self, expr: &Expr) -> Option<Node> {
        match expr {
            Expr::Field(_) => self.field(expr).map(Node::Scalar),
            Expr::Cast(cast) => self.scalar(&cast.expr),
            Expr::Lit(lit) => Some(Node::Known(match &lit.lit {
                Lit::Bool(b) => of(b.value),
                Lit::Int(x) => match x.suffix() {
                    "u32" => of(x.base10_parse::<u32>().ok()?),
                    "u8" => of(x.base10_parse::<u8>().ok()?),
                    _ => of(x.base10_parse::<i32>().ok()?),
                },
                _ => Val::Any,
            })),
            Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => match &*unary.expr {
                Expr::Lit(lit) => match &lit.lit {
                    Lit::Int(x) => i32::try_from(-x.base10_parse::<i64>().ok()?).ok().map(|x| Node::Known(of(x))),
                    _ => Some(Node::Known(Val::Any)),
                },
                _ => None,
            },
            Expr::Path(path) if path.path.segments.iter().map(|s| s.ident.to_string()).eq(["i32", "MIN"]) => {
                Some(Node::Known(of(i32::MIN)))
            }
            Expr::Path(path) => (self.scope.constant)(&path.path).map(|value| {
                Node::Known(match value {
                    ConstValue::I32(x) | ConstValue::Enum(_, x) => of(x),
                    ConstValue::U32(x) => of(x),
                    ConstValue::Bool(x) => of(x),
                    ConstValue::F32(_) | ConstValue::U64(_) | ConstValue::I64(_) => Val::Any,
                })
            }),
            _ => None,
        }
    }
}

/// The names of a parameter of a step.
fn names_of(pat: &Pat) -> Vec<String> {
    match pat {
        Pat::Ident(name) => vec![name.ident.to_string()],
        Pat::Slice(slice) => slice.elems.iter().flat_map(names_of).collect(),
        _ => Vec::new(),
    }
}

/// The name before `as __helper`.
fn renamed(tree: &UseTree) -> Option<String> {
    match tree {
        UseTree::Path(path) => renamed(&path.tree),
        UseTree::Rename(rename) if rename.rename == "__helper" => Some(rename.ident.to_string()),
        _ => None,
    }
}

/// The coordinate of `tile.kv_pos_min`.
fn coordinate_of(min: &syn::ExprField) -> Option<Coordinate> {
    let Member::Named(name) = &min.member else { return None };
    Some(match name.to_string().as_str() {
        "batch" => |tile| (tile.batch, tile.batch),
        "qo_len" => |tile| (tile.qo_len, tile.qo_len),
        "kv_len" => |tile| (tile.kv_len, tile.kv_len),
        "qo_row_min" => |tile| (tile.qo_row_min, tile.qo_row_max),
        "qo_pos_min" => |tile| (tile.qo_pos_min, tile.qo_pos_max),
        "qo_token_min" => |tile| (tile.qo_token_min, tile.qo_token_max),
        "qo_head_min" => |tile| (tile.qo_head_min, tile.qo_head_max),
        "kv_head_min" => |tile| (tile.kv_head_min, tile.kv_head_max),
        "kv_pos_min" => |tile| (tile.kv_pos_min, tile.kv_pos_max),
        "kv_token_min" => |tile| (tile.kv_token_min, tile.kv_token_max),
        _ => return None,
    })
}

/// The functions of `interval` that macros emit calls of, by the number of their operands.
macro_rules! named {
    ($function:ident: $ty:ty => $($name:ident)*) => {
        fn $function(name: &str) -> Option<$ty> {
            Some(match name {
                $(stringify!($name) => interval::$name as $ty,)*
                _ => return None,
            })
        }
    };
}
named!(unary: fn(Val) -> Val =>
    abs bit_not cast_i32 cast_i64 cast_u8 cast_u32 cast_u64 clear_lowest count_ones is_power_of_two
    leading_zeros neg signum trailing_zeros truth
    unsigned_abs);
named!(binary: fn(Val, Val) -> Val =>
    abs_diff add bit_and bit_or bit_xor both div div_euclid either eq ge gt le lt max min mul ne pow rem rem_euclid
    saturating_add saturating_sub shl shr sub);
named!(ternary: fn(Val, Val, Val) -> Val => clamp select);
named!(quaternary: fn(Val, Val, Val, Val) -> Val => eq_cell eq_cells);
