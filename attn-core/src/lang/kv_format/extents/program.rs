//! The functions of a KV format as data. `#[kv_format]` emits them; floats and what has no effect are left out.

use crate::lang::{desc::ConstValue, interval::Parts, interval::Val};

/// The functions of a format.
#[derive(Clone, Copy, Debug)]
pub struct Extents {
    /// `encode`.
    pub encode: Function,
    /// `decode`.
    pub decode: Function,
    /// `scale`, where it is written.
    pub scale: Option<Function>,
    /// `zero`, where it is written.
    pub zero: Option<Function>,
}

impl Extents {
    /// Of functions that touch nothing: for formats of tests, which are written without the macro.
    #[cfg(test)]
    pub(crate) const NOTHING: Extents = {
        let nothing = Function { locals: 0, kv_head: None, at: None, body: &[] };
        Extents { encode: nothing, decode: nothing, scale: None, zero: None }
    };
}

/// A function.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The number of its variables.
    pub locals: usize,
    /// The variable that holds the KV head.
    pub kv_head: Option<usize>,
    /// The variable that holds the first element of `decode`, or the group of `scale` and `zero`.
    pub at: Option<usize>,
    /// Its statements.
    pub body: &'static [Statement],
}

/// A statement.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // named as in Rust
pub enum Statement {
    /// `let`, or an assignment.
    Let {
        local: usize,
        value: Term,
    },
    /// `array[index] = value`.
    SetElement {
        local: usize,
        index: Term,
        value: Term,
    },
    /// What has an effect.
    Eval {
        value: Term,
    },
    For {
        local: usize,
        from: Term,
        to: Term,
        inclusive: bool,
        body: &'static [Statement],
    },
    Return,
    Break,
    Continue,
}

/// An expression.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // named as in Rust
pub enum Term {
    /// A float or anything else that is not tracked, with the parts of it that have effects.
    Unknown {
        of: &'static [Term],
    },
    Literal {
        value: ConstValue,
    },
    Constant {
        value: fn() -> ConstValue,
    },
    Local {
        local: usize,
    },
    /// A scalar parameter.
    Param {
        name: &'static str,
    },
    /// An element of a parameter tensor.
    Element {
        name: &'static str,
        indices: &'static [Term],
    },
    Unary {
        function: fn(Val) -> Val,
        of: &'static Term,
    },
    Binary {
        function: fn(Val, Val) -> Val,
        of: &'static [Term; 2],
    },
    /// A call of a helper.
    Helper {
        function: fn(&[Parts]) -> Parts,
        of: &'static [Term],
    },
    /// A tuple, a struct or an array.
    Many {
        names: &'static [&'static str],
        of: &'static [Term],
    },
    /// `[of; n]`.
    Repeat {
        names: &'static [&'static str],
        of: &'static Term,
    },
    Index {
        array: &'static Term,
        index: &'static Term,
    },
    Part {
        name: &'static str,
        of: &'static Term,
    },
    If {
        condition: &'static Term,
        then: &'static Term,
        other: &'static Term,
    },
    Block {
        steps: &'static [Statement],
        value: &'static Term,
    },
    /// `x.dim()`.
    Dim,
    /// A call that touches the row or its bytes. Of the arguments those that are numbers are here.
    Touch {
        access: Access,
        of: &'static [Term],
    },
}

/// What a call touches.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The call, as `codes.u32`.
    pub call: &'static str,
    /// Its file, as rustc names it.
    pub file: &'static str,
    /// Its line.
    pub line: u32,
    /// What it touches.
    pub target: Touched,
}

/// The bytes or elements that a call touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Touched {
    /// A number of bytes at an offset, a multiple of it.
    Bytes { count: u8, of_codes: bool, written: bool },
    /// Codes of so many bits at an offset, of elements from a first one.
    Codes { bits: u8, of_codes: bool },
    /// Elements of the row from a first one.
    Elements,
}
