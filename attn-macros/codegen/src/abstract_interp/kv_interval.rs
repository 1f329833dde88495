//! Masks whose keys are one interval per row: causal, windows, chunks, packed documents.
//!
//! The normal form is split at `&&`, `||` and selects. A comparison of the key's position with a value of the row
//! bounds the interval on one side. `kv_bounds` is emitted only where it equals the mask for every key: sums that may
//! wrap are refused. The functions on intervals of keys are in `lang/interval.cuh`.

use super::emit_cuda::uniform;
use super::interval_fn::IntervalFn as F;
use super::normal_form::{Id, Node, NormalForm, magnitudes};
use crate::{ir::Op, names, visits::Visits};

/// `Bounds kv_bounds(const RowIndex& at) const`, or nothing.
pub(super) fn kv_bounds(form: &NormalForm) -> String {
    let intervals = KvIntervals { form, magnitudes: magnitudes(&form.nodes), visits: Visits::most() };
    match intervals.span(form.result, true) {
        Some(span) if !(span.below && span.above) => {
            let text = span.text;
            format!("ATTN_FN Bounds kv_bounds(const RowIndex& at) const {{\n  return interval::bounds({text});\n}}\n")
        }
        _ => String::new(),
    }
}

/// The keys for which a condition holds.
struct KeyInterval {
    text: String,
    /// Whether the interval is unbounded below, and above.
    below: bool,
    above: bool,
}

struct KvIntervals<'a> {
    form: &'a NormalForm,
    magnitudes: Vec<Option<u64>>,
    visits: Visits,
}

impl KvIntervals<'_> {
    fn node(&self, id: Id) -> &Node {
        &self.form.nodes[id]
    }

    /// The keys for which a condition equals `wanted`.
    fn span(&self, id: Id, wanted: bool) -> Option<KeyInterval> {
        self.visits.next()?;
        if let Some(text) = self.row(id) {
            let not = if wanted { "" } else { "!" };
            return Some(KeyInterval { text: format!("interval::keys_if({not}({text}))"), below: true, above: true });
        }
        let Node::Op(name, ids) = self.node(id) else { return None };
        match (*name, ids.as_slice()) {
            (F::BitNot, &[a]) => self.span(a, !wanted),
            (F::Both | F::BitAnd, &[a, b]) => self.two(&self.span(a, wanted)?, &self.span(b, wanted)?, wanted),
            (F::Either | F::BitOr, &[a, b]) => self.two(&self.span(a, wanted)?, &self.span(b, wanted)?, !wanted),
            (F::Select, &[c, a, b]) => self.choice(c, a, b, wanted),
            (F::Lt | F::Le | F::Gt | F::Ge | F::Eq | F::Ne, &[a, b]) => {
                let (name, a, b) = if self.row(a).is_some() { (mirrored(*name), b, a) } else { (*name, a, b) };
                let name = if wanted { name } else { opposite(name) };
                let limit = self.row(b)?;
                let (text, below, above) = match name {
                    F::Lt => (format!("interval::up_to(i64({limit}) - 1)"), true, false),
                    F::Le => (format!("interval::up_to({limit})"), true, false),
                    F::Gt => (format!("interval::from(i64({limit}) + 1)"), false, true),
                    F::Ge => (format!("interval::from({limit})"), false, true),
                    F::Eq => (format!("interval::only({limit})"), false, false),
                    _ => return None,
                };
                self.keys(a, KeyInterval { text, below, above })
            }
            _ => None,
        }
    }

    /// The intersection of two intervals, or their union.
    fn two(&self, a: &KeyInterval, b: &KeyInterval, both: bool) -> Option<KeyInterval> {
        let (below, above) = (a.below && b.below, a.above && b.above);
        if both {
            return Some(KeyInterval { text: format!("interval::meet({}, {})", a.text, b.text), below, above });
        }
        // two intervals that are unbounded on the same side have no gap between them
        (below || above).then(|| KeyInterval { text: format!("interval::join({}, {})", a.text, b.text), below, above })
    }

    fn choice(&self, c: Id, a: Id, b: Id, wanted: bool) -> Option<KeyInterval> {
        if let Some(c) = self.row(c) {
            let (a, b) = (self.span(a, wanted)?, self.span(b, wanted)?);
            let (below, above) = (a.below && b.below, a.above && b.above);
            return Some(KeyInterval { text: format!("(({c}) ? {} : {})", a.text, b.text), below, above });
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

    /// The keys for which the value of a node is in an interval.
    fn keys(&self, id: Id, span: KeyInterval) -> Option<KeyInterval> {
        if matches!(self.node(id), Node::Coordinate(word) if word == "kv_pos") {
            return Some(span);
        }
        let Node::Op(name, ids) = self.node(id) else { return None };
        let KeyInterval { text, below, above } = span;
        // no operand wraps
        let small = self.magnitudes[id].is_some();
        match (*name, ids.as_slice()) {
            (F::Add, &[a, b]) if small => match (self.row(a), self.row(b)) {
                (None, Some(r)) => self.keys(a, shifted(&text, &format!("-i64({r})"), below, above)),
                (Some(r), None) => self.keys(b, shifted(&text, &format!("-i64({r})"), below, above)),
                _ => None,
            },
            (F::Sub, &[a, b]) if small => match (self.row(a), self.row(b)) {
                (None, Some(r)) => self.keys(a, shifted(&text, &r, below, above)),
                (Some(r), None) => self.keys(
                    b,
                    KeyInterval { text: format!("interval::mirrored({text}, {r})"), below: above, above: below },
                ),
                _ => None,
            },
            (F::Neg, &[a]) if small => {
                self.keys(a, KeyInterval { text: format!("interval::mirrored({text}, 0)"), below: above, above: below })
            }
            (F::Div, &[a, b]) => {
                let by = self.row(b)?;
                // the sign of the divisor decides whether the quotient rises or falls; it is known only for a literal
                let up = matches!(self.node(b), Node::Int(n, _) if *n > 0);
                let (below, above) = (up && below, up && above);
                self.keys(a, KeyInterval { text: format!("interval::dividends({text}, {by})"), below, above })
            }
            // |x| <= b is -b <= x <= b
            (F::Abs, &[a]) if small && below && !above => {
                self.keys(a, KeyInterval { text: format!("interval::within({text})"), below: false, above: false })
            }
            _ => None,
        }
    }

    /// The C++ of a value that depends on the row alone.
    fn row(&self, id: Id) -> Option<String> {
        self.visits.next()?;
        Some(match self.node(id) {
            Node::Coordinate(word) if word == "kv_pos" || word == "kv_token" => return None,
            Node::Coordinate(word) => format!("at.{word}"),
            Node::Element(name, ids) => {
                let ids: Option<Vec<String>> = ids.iter().map(|&id| self.row(id)).collect();
                let (name, ids) = (names::param(name), ids?);
                match ids.as_slice() {
                    // `[[` would begin a C++ attribute
                    [one] => format!("{name}[({one})]"),
                    ids => format!("{name}({})", ids.join(", ")),
                }
            }
            // functions that only abstract values have, and 64 bits
            Node::Op(F::ClearLowest | F::EqCell | F::EqCells | F::CastU64 | F::CastI64, _) => return None,
            Node::Op(name, ids) => {
                let ids: Option<Vec<String>> = ids.iter().map(|&id| self.row(id)).collect();
                concrete(*name, &ids?)
            }
            node => return uniform(node),
        })
    }
}

fn shifted(text: &str, by: &str, below: bool, above: bool) -> KeyInterval {
    KeyInterval { text: format!("interval::shifted({text}, {by})"), below, above }
}

/// An operation on concrete values: an operator, or a function of lang/lang.cuh.
fn concrete(function: F, args: &[String]) -> String {
    let operator = Op::of_function(function).filter(|op| op.is_comparison() || op.is_logical());
    match (operator, args) {
        (None, [c, a, b]) if function == F::Select => format!("(({c}) ? {a} : {b})"),
        (Some(op), [a, b]) => format!("({a} {} {b})", op.symbol()),
        _ => format!("{}({})", function.name(), args.join(", ")),
    }
}

/// The comparison with its operands swapped, or both negated.
pub(super) fn mirrored(name: F) -> F {
    match name {
        F::Lt => F::Gt,
        F::Le => F::Ge,
        F::Gt => F::Lt,
        F::Ge => F::Le,
        name => name,
    }
}

fn opposite(name: F) -> F {
    match name {
        F::Lt => F::Ge,
        F::Le => F::Gt,
        F::Gt => F::Le,
        F::Ge => F::Lt,
        F::Eq => F::Ne,
        _ => F::Eq,
    }
}
