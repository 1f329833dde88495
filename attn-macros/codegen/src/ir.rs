//! The typed intermediate representation of hooks and helpers, after the subset is enforced.

use proc_macro2::Span;

use crate::{abstract_interp::interval_fn::IntervalFn as F, budget, report::SpanRange, types::Ty};

/// A local variable or argument.
#[derive(Clone, Debug)]
pub struct Local {
    /// Its name in the text.
    pub name: String,
    /// Its type.
    pub ty: Ty,
    /// Whether it is declared `mut`.
    pub mutable: bool,
}

/// Index into [`Function::locals`].
pub type LocalId = usize;

/// A hook or helper.
#[derive(Debug)]
pub struct Function {
    /// Rust name.
    pub name: String,
    /// Lines of the doc comment.
    pub doc: Vec<String>,
    /// Span of the `fn` keyword.
    pub span: Span,
    /// All locals, arguments included.
    pub locals: Vec<Local>,
    /// Arguments.
    pub args: Vec<Argument>,
    /// Result.
    pub ret: Ty,
    /// Body.
    pub body: Block,
}

/// An argument of a function.
#[derive(Debug)]
pub struct Argument {
    /// `None` for `_`.
    pub local: Option<LocalId>,
    /// Its type.
    pub ty: Ty,
    /// Whether it is passed by reference, in a `#[device_mod]`.
    pub by_reference: bool,
}

/// Statements and a value.
#[derive(Debug, Default)]
pub struct Block {
    /// Statements, in order.
    pub stmts: Vec<Stmt>,
    /// The value; `None` is `()`.
    pub tail: Option<Box<Expr>>,
    /// Whether it is `space::plain(value)`, which takes an index as a plain number.
    pub plain: bool,
}

impl Block {
    /// A value without statements.
    pub fn of(value: Expr) -> Block {
        Block { tail: Some(Box::new(value)), ..Block::default() }
    }

    /// The statements and the value.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.stmts.iter().map(Part::Stmt).chain(self.tail.as_deref().map(Part::Expr))
    }
}

/// A statement.
#[derive(Debug)]
#[allow(missing_docs, clippy::large_enum_variant)] // few statements are loops, the largest
pub enum Stmt {
    Let {
        local: LocalId,
        init: Expr,
    },
    /// `let (a, b) = init`, `None` for `_`; `whole` is for the tuple.
    LetTuple {
        parts: Vec<Option<LocalId>>,
        whole: LocalId,
        init: Expr,
    },
    Expr(Expr),
    Assign {
        local: LocalId,
        op: Option<Op>,
        value: Expr,
        span: SpanRange,
    },
    /// `temporaries` are two locals: the end, which Rust evaluates once, and the state of a loop whose end may be the
    /// largest value.
    For {
        var: LocalId,
        temporaries: Box<[LocalId; 2]>,
        from: Expr,
        to: Expr,
        inclusive: bool,
        /// How often the body is repeated in the text's loop, `#[unroll(2)]`.
        unroll: Option<std::num::NonZeroU8>,
        body: Block,
    },
    Return(Option<Expr>),
    Break,
    Continue,
}

/// An expression with its type.
#[derive(Debug)]
pub struct Expr {
    /// The kind.
    pub kind: Kind,
    /// Its type.
    pub ty: Ty,
    /// Its span.
    pub span: SpanRange,
}

/// Kinds of expressions.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Int(u64),
    Float(f32),
    Bool(bool),
    Local(LocalId),
    /// `self.name`.
    Param(String),
    /// `self.name.get()`, `self.name[i]`, `self.name[[i, j]]`: one index per dimension.
    Element(String, Vec<Expr>),
    /// `self.name.store(index, value)`, `self.name.atomic_max(index, value)`.
    Store {
        name: String,
        method: &'static str,
        index: Vec<Expr>,
        value: Box<Expr>,
    },
    /// `at.qo_pos`, `tile.kv_len`, `state.lse`: a coordinate or field of a local.
    Coordinate(LocalId, String),
    /// A constant, by its name in the text.
    Const(String),
    /// A name of lang/lang.cuh.
    Builtin(&'static str),
    /// `-inf`.
    NegInfinity,
    Neg(Box<Expr>),
    Not(Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>),
    Cast(Box<Expr>, Ty),
    /// A function of lang/lang.cuh.
    Call(&'static str, Vec<Expr>),
    /// A helper, by its name in the text.
    Helper(String, Vec<Expr>),
    /// A helper that is generic over constants: its name, the constants, the arguments.
    HelperOf(String, Vec<Expr>, Vec<Expr>),
    /// A combinator of a row.
    Row(LocalId, &'static str, Vec<Expr>),
    /// A method of a stored row, or of the row that is stored, by its name in the text.
    Packed(LocalId, &'static str, Vec<Expr>),
    Closure {
        params: Vec<(Option<LocalId>, Ty)>,
        ret: Ty,
        body: Block,
    },
    /// `[a, b, c]`.
    Array(Vec<Expr>),
    /// `[x; n]`.
    Repeat(Box<Expr>, u64),
    /// `array[i]`.
    Index(Box<Expr>, Box<Expr>),
    /// `array[i] = x`, a statement.
    SetElement {
        local: LocalId,
        index: Box<Expr>,
        op: Option<Op>,
        value: Box<Expr>,
    },
    Tuple(Vec<Expr>),
    TupleField(Box<Expr>, usize),
    /// `Interval { lo, hi }` of a `#[device_mod]`: the fields in the order of their definition.
    Aggregate(Vec<Expr>),
    /// `Line { slope, ..base }`: the type and the fields by their names in the text.
    Struct {
        ty: String,
        base: Option<Box<Expr>>,
        fields: Vec<(String, Expr)>,
    },
    /// `line.slope`, by its name in the text.
    Field(Box<Expr>, String),
    /// `Mode::Linear`: the type and the variant by their names in the text, and the variant's in Rust.
    Variant {
        ty: String,
        name: String,
        rust: String,
    },
    If {
        cond: Box<Expr>,
        then: Block,
        other: Option<Block>,
    },
    Match {
        subject: Box<Expr>,
        bound: LocalId,
        arms: Vec<Arm>,
    },
    Block(Block),
    /// A `return`, `break` or `continue` in place of a value.
    Diverge(Box<Stmt>),
    /// An error that is already reported.
    Error,
}

/// An arm of a `match` whose subject is in a local.
#[derive(Debug)]
pub struct Arm {
    /// The pattern.
    pub test: Test,
    /// The guard.
    pub guard: Option<Expr>,
    /// The value.
    pub body: Block,
}

/// A pattern as a condition on the subject.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Test {
    Always,
    Equal(Expr),
    Range { from: Option<Expr>, to: Option<Expr>, inclusive: bool },
    Any(Vec<Test>),
}

impl Expr {
    /// The expressions and blocks directly inside.
    pub fn children(&self) -> (Vec<&Expr>, Vec<&Block>) {
        match &self.kind {
            Kind::Element(_, items)
            | Kind::Call(_, items)
            | Kind::Helper(_, items)
            | Kind::Row(_, _, items)
            | Kind::Packed(_, _, items)
            | Kind::Array(items)
            | Kind::Aggregate(items)
            | Kind::Tuple(items) => (items.iter().collect(), Vec::new()),
            Kind::HelperOf(_, consts, args) => (consts.iter().chain(args).collect(), Vec::new()),
            Kind::Neg(e) | Kind::Not(e) | Kind::Cast(e, _) | Kind::TupleField(e, _) | Kind::Repeat(e, _) => {
                (vec![e], Vec::new())
            }
            Kind::Field(e, _) => (vec![e], Vec::new()),
            Kind::Struct { base, fields, .. } => {
                (base.as_deref().into_iter().chain(fields.iter().map(|(_, e)| e)).collect(), Vec::new())
            }
            Kind::Binary(_, a, b) | Kind::Index(a, b) | Kind::SetElement { index: a, value: b, .. } => {
                (vec![a, b], Vec::new())
            }
            Kind::Store { index, value, .. } => (index.iter().chain([&**value]).collect(), Vec::new()),
            Kind::Closure { body, .. } | Kind::Block(body) => (Vec::new(), vec![body]),
            Kind::If { cond, then, other } => (vec![cond], [then].into_iter().chain(other).collect()),
            Kind::Match { subject, arms, .. } => {
                let guards = arms.iter().filter_map(|arm| arm.guard.as_ref());
                (std::iter::once(&**subject).chain(guards).collect(), arms.iter().map(|arm| &arm.body).collect())
            }
            Kind::Diverge(stmt) => stmt.children(),
            _ => (Vec::new(), Vec::new()),
        }
    }
}

impl Stmt {
    /// The expressions and blocks directly inside.
    pub fn children(&self) -> (Vec<&Expr>, Vec<&Block>) {
        match self {
            Stmt::Let { init: e, .. } | Stmt::LetTuple { init: e, .. } => (vec![e], Vec::new()),
            Stmt::Expr(e) | Stmt::Assign { value: e, .. } => (vec![e], Vec::new()),
            Stmt::For { from, to, body, .. } => (vec![from, to], vec![body]),
            Stmt::Return(value) => (value.iter().collect(), Vec::new()),
            Stmt::Break | Stmt::Continue => (Vec::new(), Vec::new()),
        }
    }
}

/// An expression or a statement inside a function.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Part<'a> {
    Expr(&'a Expr),
    Stmt(&'a Stmt),
}

impl<'a> Part<'a> {
    /// The parts directly inside, in order.
    pub fn children(self) -> Vec<Part<'a>> {
        let (exprs, blocks) = match self {
            Part::Expr(Expr { kind: Kind::Diverge(stmt), .. }) => return vec![Part::Stmt(stmt)],
            Part::Expr(e) => e.children(),
            Part::Stmt(stmt) => stmt.children(),
        };
        exprs.into_iter().map(Part::Expr).chain(blocks.into_iter().flat_map(Block::parts)).collect()
    }

    /// Whether `test` holds for this part or one inside; where `test` gives `None`, the parts inside decide.
    pub fn any(self, test: &mut impl FnMut(Part<'a>) -> Option<bool>) -> bool {
        if !budget::spend(1) {
            return false;
        }
        test(self).unwrap_or_else(|| self.children().into_iter().any(|part| part.any(test)))
    }
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    Shr,
    And,
    Or,
    Xor,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    AndAlso,
    OrElse,
}

/// Each operator, its symbol in Rust and in C++, and its function in lang/lang.cuh and lang/interval.cuh.
const OPS: [(Op, &str, F); 18] = [
    (Op::Add, "+", F::Add),
    (Op::Sub, "-", F::Sub),
    (Op::Mul, "*", F::Mul),
    (Op::Div, "/", F::Div),
    (Op::Rem, "%", F::Rem),
    (Op::Shl, "<<", F::Shl),
    (Op::Shr, ">>", F::Shr),
    (Op::And, "&", F::BitAnd),
    (Op::Or, "|", F::BitOr),
    (Op::Xor, "^", F::BitXor),
    (Op::Lt, "<", F::Lt),
    (Op::Le, "<=", F::Le),
    (Op::Gt, ">", F::Gt),
    (Op::Ge, ">=", F::Ge),
    (Op::Eq, "==", F::Eq),
    (Op::Ne, "!=", F::Ne),
    (Op::AndAlso, "&&", F::Both),
    (Op::OrElse, "||", F::Either),
];

impl Op {
    /// The operator with this symbol.
    pub fn of_symbol(symbol: &str) -> Option<Op> {
        OPS.iter().find(|(_, there, _)| *there == symbol).map(|(op, ..)| *op)
    }

    /// The operator with this function.
    pub fn of_function(function: F) -> Option<Op> {
        OPS.iter().find(|(.., there)| *there == function).map(|(op, ..)| *op)
    }

    /// The symbol: `+`.
    pub fn symbol(self) -> &'static str {
        OPS[self as usize].1
    }

    /// The function: `add`.
    pub fn function(self) -> &'static str {
        self.over().name()
    }

    /// The function over abstract values.
    pub fn over(self) -> F {
        OPS[self as usize].2
    }

    /// Whether it is `<`, `<=`, `>`, `>=`, `==` or `!=`.
    pub fn is_comparison(self) -> bool {
        matches!(self, Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne)
    }

    /// Whether it is `&&` or `||`.
    pub fn is_logical(self) -> bool {
        matches!(self, Op::AndAlso | Op::OrElse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_operators() {
        assert!(OPS.iter().enumerate().all(|(i, (op, ..))| *op as usize == i));
    }
}
