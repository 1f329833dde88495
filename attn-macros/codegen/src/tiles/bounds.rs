//! Masks whose keys are an interval for each row: causal, windows, chunks, packed documents.
//!
//! A mask is taken apart at `&&`, `||` and choices; a comparison of a key's position with what the row alone decides says from where
//! and up to where keys go. Written only where it is the same as the mask for every key: sums that might wrap are refused.
//! What spans are: `lang/interval.cuh`.

use super::form::{Form, Id, IntTy, Node};
use crate::names;

/// Index words are smaller in magnitude.
const WORD: u64 = 1 << 30;

/// `Bounds kv_bounds(const RowIndex& at) const`, or nothing.
pub(super) fn kv_bounds(form: &Form) -> String {
    match (Reader { form }).span(form.result, true) {
        Some(span) if !(span.below && span.above) => {
            let text = span.text;
            format!("ATTN_FN Bounds kv_bounds(const RowIndex& at) const {{\n  return range::bounds({text});\n}}\n")
        }
        _ => String::new(),
    }
}

/// The keys for which something holds.
struct Span {
    text: String,
    /// All keys below one of them are in it too; all above.
    below: bool,
    above: bool,
}

struct Reader<'a> {
    form: &'a Form,
}

impl Reader<'_> {
    fn node(&self, id: Id) -> &Node {
        &self.form.nodes[id]
    }

    /// The keys for which a condition is as `wanted`.
    fn span(&self, id: Id, wanted: bool) -> Option<Span> {
        if let Some(text) = self.row(id) {
            let not = if wanted { "" } else { "!" };
            return Some(Span { text: format!("range::keys_if({not}({text}))"), below: true, above: true });
        }
        let Node::Op(name, ids) = self.node(id) else { return None };
        match (*name, ids.as_slice()) {
            ("bit_not", &[a]) => self.span(a, !wanted),
            ("both" | "bit_and", &[a, b]) => self.two(&self.span(a, wanted)?, &self.span(b, wanted)?, wanted),
            ("either" | "bit_or", &[a, b]) => self.two(&self.span(a, wanted)?, &self.span(b, wanted)?, !wanted),
            ("select", &[c, a, b]) => self.choice(c, a, b, wanted),
            ("lt" | "le" | "gt" | "ge" | "eq" | "ne", &[a, b]) => {
                let (name, a, b) = if self.row(a).is_some() { (mirrored(name), b, a) } else { (*name, a, b) };
                let name = if wanted { name } else { opposite(name) };
                let limit = self.row(b)?;
                let (text, below, above) = match name {
                    "lt" => (format!("range::up_to(range::i64({limit}) - 1)"), true, false),
                    "le" => (format!("range::up_to({limit})"), true, false),
                    "gt" => (format!("range::from(range::i64({limit}) + 1)"), false, true),
                    "ge" => (format!("range::from({limit})"), false, true),
                    "eq" => (format!("range::only({limit})"), false, false),
                    _ => return None,
                };
                self.keys(a, Span { text, below, above })
            }
            _ => None,
        }
    }

    /// Keys of both spans, or of either.
    fn two(&self, a: &Span, b: &Span, both: bool) -> Option<Span> {
        let (below, above) = (a.below && b.below, a.above && b.above);
        if both {
            return Some(Span { text: format!("range::meet({}, {})", a.text, b.text), below, above });
        }
        // two spans that are open on one side leave no gap
        (below || above).then(|| Span { text: format!("range::hull({}, {})", a.text, b.text), below, above })
    }

    fn choice(&self, c: Id, a: Id, b: Id, wanted: bool) -> Option<Span> {
        if let Some(c) = self.row(c) {
            let (a, b) = (self.span(a, wanted)?, self.span(b, wanted)?);
            let (below, above) = (a.below && b.below, a.above && b.above);
            return Some(Span { text: format!("(({c}) ? {} : {})", a.text, b.text), below, above });
        }
        let truth = |id: Id| match self.node(id) {
            Node::Bool(b) => Some(*b == wanted),
            _ => None,
        };
        match (truth(a), truth(b)) {
            (Some(true), Some(false)) => self.span(c, true),
            (Some(false), Some(true)) => self.span(c, false),
            (Some(false), None) => self.two(&self.span(c, false)?, &self.span(b, wanted)?, true),
            (Some(true), None) => self.two(&self.span(c, true)?, &self.span(b, wanted)?, false),
            (None, Some(false)) => self.two(&self.span(c, true)?, &self.span(a, wanted)?, true),
            (None, Some(true)) => self.two(&self.span(c, false)?, &self.span(a, wanted)?, false),
            _ => None,
        }
    }

    /// The keys for which the value of a node is in a span.
    fn keys(&self, id: Id, span: Span) -> Option<Span> {
        if matches!(self.node(id), Node::Word(word) if word == "kv_pos") {
            return Some(span);
        }
        let Node::Op(name, ids) = self.node(id) else { return None };
        let Span { text, below, above } = span;
        // nothing wraps
        let small = self.most(id).is_some();
        match (*name, ids.as_slice()) {
            ("add", &[a, b]) if small => match (self.row(a), self.row(b)) {
                (None, Some(r)) => self.keys(a, shifted(&text, &format!("-range::i64({r})"), below, above)),
                (Some(r), None) => self.keys(b, shifted(&text, &format!("-range::i64({r})"), below, above)),
                _ => None,
            },
            ("sub", &[a, b]) if small => match (self.row(a), self.row(b)) {
                (None, Some(r)) => self.keys(a, shifted(&text, &r, below, above)),
                (Some(r), None) => {
                    self.keys(b, Span { text: format!("range::mirrored({text}, {r})"), below: above, above: below })
                }
                _ => None,
            },
            ("neg", &[a]) if small => {
                self.keys(a, Span { text: format!("range::mirrored({text}, 0)"), below: above, above: below })
            }
            ("div", &[a, b]) => {
                let by = self.row(b)?;
                // which way a quotient runs is known of a literal divisor alone
                let up = matches!(self.node(b), Node::Int(n, _) if *n > 0);
                let (below, above) = (up && below, up && above);
                self.keys(a, Span { text: format!("range::dividends({text}, {by})"), below, above })
            }
            // |x| up to something: from its opposite on
            ("abs", &[a]) if small && below && !above => {
                self.keys(a, Span { text: format!("range::within({text})"), below: false, above: false })
            }
            _ => None,
        }
    }

    /// The largest magnitude of an i32, where it is known and nothing wraps.
    fn most(&self, id: Id) -> Option<u64> {
        let sum = |n: u64| (n <= i32::MAX as u64).then_some(n);
        match self.node(id) {
            Node::Word(_) => Some(WORD - 1),
            Node::Int(n, None | Some(IntTy::I32)) => sum(*n),
            Node::Op("add" | "sub", ids) => sum(self.most(ids[0])? + self.most(ids[1])?),
            Node::Op("mul", ids) => sum(self.most(ids[0])?.checked_mul(self.most(ids[1])?)?),
            Node::Op("neg" | "abs" | "signum", ids) => self.most(ids[0]),
            Node::Op("min" | "max", ids) => Some(self.most(ids[0])?.max(self.most(ids[1])?)),
            Node::Op("select", ids) => Some(self.most(ids[1])?.max(self.most(ids[2])?)),
            Node::Op("div", ids) if matches!(self.node(ids[1]), Node::Int(n, _) if *n > 0) => self.most(ids[0]),
            _ => None,
        }
    }

    /// The C++ of what the row alone decides.
    fn row(&self, id: Id) -> Option<String> {
        Some(match self.node(id) {
            Node::Word(word) if word == "kv_pos" || word == "kv_token" => return None,
            Node::Word(word) => format!("at.{word}"),
            Node::Param(name) => names::param(name),
            Node::Const(name) => name.clone(),
            Node::Variant { ty, name, .. } => format!("{ty}::{name}"),
            Node::Int(n, None | Some(IntTy::I32)) => n.to_string(),
            Node::Int(n, Some(IntTy::U32)) => format!("{n}u"),
            Node::Int(n, Some(IntTy::U8)) => format!("u8({n})"),
            Node::LeastI32 => "I32_MIN".to_owned(),
            Node::Bool(b) => b.to_string(),
            Node::Element(name, ids) => {
                let ids: Option<Vec<String>> = ids.iter().map(|&id| self.row(id)).collect();
                let (name, ids) = (names::param(name), ids?);
                match ids.as_slice() {
                    // `[[` would begin an attribute
                    [one] => format!("{name}[({one})]"),
                    ids => format!("{name}({})", ids.join(", ")),
                }
            }
            Node::Op(name, ids) => {
                let ids: Option<Vec<String>> = ids.iter().map(|&id| self.row(id)).collect();
                concrete(name, &ids?)
            }
            Node::Arg(_) | Node::Any | Node::Helper(..) => return None,
        })
    }
}

fn shifted(text: &str, by: &str, below: bool, above: bool) -> Span {
    Span { text: format!("range::shifted({text}, {by})"), below, above }
}

/// An operation on concrete values: of lang/lang.cuh, or an operator.
fn concrete(name: &str, args: &[String]) -> String {
    let operator = match name {
        "lt" => "<",
        "le" => "<=",
        "gt" => ">",
        "ge" => ">=",
        "eq" => "==",
        "ne" => "!=",
        "both" => "&&",
        "either" => "||",
        _ => "",
    };
    match args {
        [c, a, b] if name == "select" => format!("(({c}) ? {a} : {b})"),
        [a, b] if !operator.is_empty() => format!("({a} {operator} {b})"),
        args => format!("{name}({})", args.join(", ")),
    }
}

/// With the sides the other way round.
fn mirrored(name: &'static str) -> &'static str {
    match name {
        "lt" => "gt",
        "le" => "ge",
        "gt" => "lt",
        "ge" => "le",
        name => name,
    }
}

fn opposite(name: &'static str) -> &'static str {
    match name {
        "lt" => "ge",
        "le" => "gt",
        "gt" => "le",
        "ge" => "lt",
        "eq" => "ne",
        _ => "eq",
    }
}
