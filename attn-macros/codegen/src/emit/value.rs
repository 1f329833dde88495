//! Expressions as C++ text, with as few parentheses as read well.

use super::{
    Writer, leave,
    operator::{
        AND_ALSO, ATOM, BITS, COMPARE, OR_ELSE, SHIFT, TERNARY, UNARY, function, level, operand_level, operator,
    },
    range::positive,
    spelled,
};
use crate::{
    ir::{Arm, Block, Expr, Kind, Op, Test},
    literals, messages, names,
    types::Ty,
};

/// Text and how tightly its outermost operator binds.
pub(super) struct Text {
    pub(super) text: String,
    pub(super) level: u8,
}

impl Text {
    pub(super) fn atom(text: impl Into<String>) -> Text {
        Text { text: text.into(), level: ATOM }
    }

    /// As an operand that must bind at least this tightly.
    pub(super) fn at_least(self, level: u8) -> String {
        if self.level >= level { self.text } else { format!("({})", self.text) }
    }
}

impl Writer<'_> {
    pub(super) fn value(&mut self, e: &Expr) -> String {
        self.text(e).text
    }

    pub(super) fn text(&mut self, e: &Expr) -> Text {
        match &e.kind {
            Kind::Int(n) => Text::atom(self.integer(*n, &e.ty)),
            Kind::Float(x) => float(*x),
            Kind::Bool(b) => Text::atom(b.to_string()),
            // `()` has no variable
            Kind::Local(_) if self.settled(&e.ty) == Ty::Unit => Text::atom("0"),
            Kind::Local(local) if Some(*local) == self.logit => Text::atom(format!("float({})", self.name(*local))),
            Kind::Local(local) => Text::atom(self.name(*local)),
            Kind::Param(name) => {
                self.reads(name);
                Text::atom(names::param(name))
            }
            Kind::Element(name, indices) => {
                self.reads(name);
                let rank = indices.len();
                let name = names::param(name);
                let indices = self.list(indices);
                Text::atom(if rank != 1 { format!("{name}({indices})") } else { subscript(&name, &indices) })
            }
            Kind::Store { name, method, index, value } => {
                self.used.stores = true;
                self.reads(name);
                let (value, index) = (self.value(value), self.list(index));
                Text::atom(format!("{}.{method}({value}, {index})", names::param(name)))
            }
            Kind::Word(local, word) => {
                self.used.slots |= word == "kv_slot";
                Text::atom(format!("{}.{word}", self.name(*local)))
            }
            Kind::Const(name) => Text::atom(name),
            Kind::Builtin(name) => Text::atom(*name),
            Kind::NegInfinity => Text { text: "-F32_INFINITY".into(), level: UNARY },
            Kind::Neg(inner) => self.negation(e, inner),
            Kind::Not(inner) => self.complement(inner),
            Kind::Binary(op, a, b) => {
                self.shown_small(*op, a, b, e.span);
                self.binary(*op, a, b)
            }
            Kind::Array(items) => self.array(e, items),
            Kind::Repeat(item, len) => {
                let item = self.value(item);
                Text::atom(format!("repeat<{len}>({item})"))
            }
            Kind::Index(array, index) => {
                let index = self.inside(&array.ty, index);
                let array = self.text(array).at_least(ATOM);
                Text::atom(subscript(&array, &index))
            }
            Kind::SetElement { .. } => {
                self.report.at(e.span, messages::CHANGE_IN_VALUE);
                Text::atom("0")
            }
            Kind::Cast(inner, to) => self.cast(inner, to),
            Kind::Call(name @ ("rem_euclid" | "div_euclid"), args) if self.divisor(&args[0], &args[1]).is_some() => {
                let by = self.divisor(&args[0], &args[1]).unwrap_or_default();
                let a = self.value(&args[0]);
                Text::atom(format!("{name}_by({a}, {by})"))
            }
            Kind::Call(name, args) => {
                self.method_of_index(name, args, e.span);
                let args = self.list(args);
                Text::atom(format!("{name}({args})"))
            }
            Kind::Helper(name, args) => {
                let args = self.list(args);
                Text::atom(format!("{name}({args})"))
            }
            Kind::HelperOf(name, consts, args) => {
                let (consts, args) = (self.list(consts), self.list(args));
                Text::atom(format!("{name}<{consts}>({args})"))
            }
            Kind::Row(row, method, args) => {
                let args = self.list(args);
                Text::atom(format!("{}.{method}({args})", self.name(*row)))
            }
            Kind::Closure { params, ret, body } => {
                let params: Vec<String> = params
                    .iter()
                    .map(|(local, ty)| {
                        let ty = spelled(ty, self.types).unwrap_or_else(|| "auto".into());
                        local.map_or_else(|| ty.clone(), |l| format!("{ty} {}", self.name(l)))
                    })
                    .collect();
                self.lambda(&params.join(", "), ret, body)
            }
            Kind::Tuple(items) => {
                let known = self.settled(&e.ty) == Ty::pair();
                let items = self.list(items);
                Text::atom(if known { format!("Pair{{{items}}}") } else { format!("tuple({items})") })
            }
            Kind::TupleField(inner, i) => {
                let inner = self.text(inner).at_least(ATOM);
                Text::atom(format!("{inner}.{}", names::TUPLE_FIELDS.get(*i).unwrap_or(&"w")))
            }
            Kind::Struct { ty, base, fields } => self.structure(ty, base.as_deref(), fields),
            Kind::Field(inner, name) => {
                let inner = self.text(inner).at_least(ATOM);
                Text::atom(format!("{inner}.{name}"))
            }
            Kind::Variant { ty, name, .. } => Text::atom(format!("{ty}::{name}")),
            Kind::If { cond, then, other } => self.if_value(e, cond, then, other.as_ref()),
            Kind::Match { subject, bound, arms } => self.match_value(e, subject, *bound, arms),
            Kind::Block(block) => match simple(block) {
                Some(value) => self.text(value),
                None => self.immediate(e, |w, ret| w.body(block, ret)),
            },
            Kind::Diverge(_) => {
                self.report.at(e.span, messages::RETURN_IN_VALUE);
                Text::atom("0")
            }
            Kind::Error => Text::atom("0"),
        }
    }

    pub(super) fn list(&mut self, items: &[Expr]) -> String {
        let items: Vec<String> = items.iter().map(|e| self.value(e)).collect();
        items.join(", ")
    }

    /// A struct, field by field: their order in its definition is not seen from here.
    fn structure(&mut self, ty: &str, base: Option<&Expr>, fields: &[(String, Expr)]) -> Text {
        let mut text = match base {
            Some(base) => self.text(base).at_least(ATOM),
            None => format!("{ty}{{}}"),
        };
        for (name, value) in fields {
            let value = self.value(value);
            text.push_str(&format!(".{}({value})", names::with_field(name)));
        }
        Text::atom(text)
    }

    fn integer(&self, n: u64, ty: &Ty) -> String {
        match self.settled(ty) {
            Ty::U32 => format!("{n}u"),
            Ty::U64 => format!("{n}ull"),
            Ty::U8 => format!("u8({n})"),
            _ if n > u64::from(u32::MAX) => format!("{n}ull"),
            _ if n > i32::MAX as u64 => format!("{n}u"),
            _ => n.to_string(),
        }
    }

    fn negation(&mut self, e: &Expr, inner: &Expr) -> Text {
        if let Kind::Int(n) = inner.kind
            && n == 1 << 31
        {
            return Text::atom("I32_MIN");
        }
        let ty = self.settled(&e.ty);
        let fits = |(low, high)| low > i64::from(i32::MIN) && high <= i64::from(i32::MAX);
        let plain = ty == Ty::F32 || matches!(inner.kind, Kind::Int(_)) || self.range(inner).is_some_and(fits);
        let text = self.text(inner);
        if plain {
            // no `--x`
            let operand = if text.text.starts_with('-') { format!("({})", text.text) } else { text.at_least(UNARY) };
            Text { text: format!("-{operand}"), level: UNARY }
        } else {
            Text::atom(format!("neg({})", text.text))
        }
    }

    fn complement(&mut self, inner: &Expr) -> Text {
        let operator = match self.settled(&inner.ty) {
            Ty::Bool => "!",
            Ty::I32 | Ty::U32 | Ty::U64 => "~",
            _ => {
                let inner = self.value(inner);
                return Text::atom(format!("bit_not({inner})"));
            }
        };
        let inner = self.text(inner).at_least(UNARY);
        Text { text: format!("{operator}{inner}"), level: UNARY }
    }

    fn cast(&mut self, inner: &Expr, to: &Ty) -> Text {
        let from = self.settled(&inner.ty);
        if from == *to || from == Ty::Usize && *to == Ty::I32 {
            return self.text(inner);
        }
        if *to == Ty::Usize {
            return self.as_index(inner);
        }
        if let (Kind::Int(n), Ty::F32) = (&inner.kind, to) {
            return float(*n as f32);
        }
        if *to == Ty::F32
            && let Some(distance) = self.distance(inner)
        {
            return Text::atom(format!("float({})", distance.text));
        }
        let name = spelled(to, self.types).unwrap_or_default();
        let value = self.value(inner);
        // to float, C++ rounds as Rust; between integers it wraps as Rust; from float it does not saturate
        let plain = *to == Ty::F32 || from.is_int() || from == Ty::Bool || matches!(from, Ty::Device(_));
        let short = if name == "int" { "i32" } else { &name };
        Text::atom(if plain { format!("{name}({value})") } else { format!("cast_{short}({value})") })
    }

    /// `place op value`, for a place whose text is an atom.
    pub(super) fn combined(&mut self, op: Op, place: &Expr, text: &str, value: &Expr) -> String {
        if let Some((function, by)) = self.by_parameter(op, place, value) {
            return format!("{function}({text}, {by})");
        }
        let plain = self.is_plain(op, place, value);
        let value = self.text(value);
        if !plain {
            return format!("{}({text}, {})", function(op), value.text);
        }
        let value = value.at_least(operand_level(level(op)).max(level(op) + 1));
        let text = format!("{text} {} {value}", operator(op));
        if self.settled(&place.ty) == Ty::Bool { format!("bool({text})") } else { text }
    }

    fn binary(&mut self, op: Op, a: &Expr, b: &Expr) -> Text {
        if let Some((function, by)) = self.by_parameter(op, a, b) {
            let a = self.value(a);
            return Text::atom(format!("{function}({a}, {by})"));
        }
        if op.is_comparison() {
            self.compares(a);
            self.compares(b);
        }
        let plain = self.is_plain(op, a, b);
        let is_bool = matches!(op, Op::And | Op::Or | Op::Xor) && self.settled(&a.ty) == Ty::Bool;
        let (a, b) = if plain { self.factors(op, a, b) } else { (self.text(a), self.text(b)) };
        if !plain {
            return Text::atom(format!("{}({}, {})", function(op), a.text, b.text));
        }
        let level = level(op);
        // the left operand may be of the same operator; bit operators are never mixed without parentheses
        let mixes = |t: &Text| match level {
            BITS | SHIFT | COMPARE => t.level == level,
            OR_ELSE => t.level == AND_ALSO,
            _ => false,
        };
        let left = if mixes(&a) { format!("({})", a.text) } else { a.at_least(operand_level(level)) };
        let right = if mixes(&b) { format!("({})", b.text) } else { b.at_least(operand_level(level).max(level + 1)) };
        let text = format!("{left} {} {right}", operator(op));
        if is_bool { Text::atom(format!("bool({text})")) } else { Text { text, level } }
    }

    /// Whether C++'s operator means what Rust's does, here.
    pub(super) fn is_plain(&self, op: Op, a: &Expr, b: &Expr) -> bool {
        let ty = self.settled(&a.ty);
        let bits = if ty == Ty::U64 { 64 } else { 32 };
        let shift_fits = matches!(b.kind, Kind::Int(n) if n < bits);
        let unsigned = matches!(ty, Ty::U32 | Ty::U64);
        match op {
            _ if op.is_comparison() || op.is_logical() => true,
            _ if ty == Ty::Usize => true,
            Op::Add | Op::Sub | Op::Mul => ty == Ty::F32 || unsigned || ty == Ty::I32 && self.never_wraps(op, a, b),
            Op::Div => ty == Ty::F32 || (unsigned || ty == Ty::I32) && positive(b),
            Op::Rem => (unsigned || ty == Ty::I32) && positive(b),
            Op::Shl => unsigned && shift_fits,
            Op::Shr => (unsigned || ty == Ty::I32) && shift_fits,
            _ => unsigned || matches!(ty, Ty::I32 | Ty::Bool),
        }
    }

    fn if_value(&mut self, e: &Expr, cond: &Expr, then: &Block, other: Option<&Block>) -> Text {
        let (Some(a), Some(b)) = (simple(then), other.and_then(simple)) else {
            return self.immediate(e, |w, ret| w.tail(e, ret));
        };
        let cond = self.text(cond).at_least(OR_ELSE);
        let (a, b) = (self.text(a).at_least(OR_ELSE), self.text(b).at_least(TERNARY));
        Text { text: format!("{cond} ? {a} : {b}"), level: TERNARY }
    }

    fn match_value(&mut self, e: &Expr, subject: &Expr, bound: usize, arms: &[Arm]) -> Text {
        if !self.alias(subject, bound) || arms.iter().any(|arm| simple(&arm.body).is_none()) {
            return self.immediate(e, |w, ret| w.tail(e, ret));
        }
        let mut text = String::new();
        for (i, arm) in arms.iter().enumerate() {
            let Some(value) = simple(&arm.body) else {
                continue;
            };
            let value = self.text(value).at_least(OR_ELSE);
            match self.arm_condition(arm, bound) {
                Some(cond) if i + 1 < arms.len() => text.push_str(&format!("{cond} ? {value} : ")),
                _ => {
                    text.push_str(&value);
                    break;
                }
            }
        }
        Text { text, level: TERNARY }
    }

    /// The condition of an arm; `None` when it always matches.
    pub(super) fn arm_condition(&mut self, arm: &Arm, bound: usize) -> Option<String> {
        let test = self.test(&arm.test, bound);
        let guard = arm.guard.as_ref().map(|g| self.text(g));
        match (test, guard) {
            (None, None) => None,
            (Some(test), None) => Some(test.text),
            (None, Some(guard)) => Some(guard.at_least(OR_ELSE)),
            (Some(test), Some(guard)) => Some(format!("{} && {}", test.at_least(AND_ALSO), guard.at_least(AND_ALSO))),
        }
    }

    fn test(&mut self, test: &Test, bound: usize) -> Option<Text> {
        let subject = self.name(bound);
        match test {
            Test::Always => None,
            Test::Equal(e) => Some(match e.kind {
                Kind::Bool(true) => Text::atom(subject),
                Kind::Bool(false) => Text { text: format!("!{subject}"), level: UNARY },
                _ => {
                    let value = self.text(e).at_least(SHIFT);
                    Text { text: format!("{subject} == {value}"), level: COMPARE }
                }
            }),
            Test::Range { from, to, inclusive } => {
                let from = from.as_ref().map(|e| format!("{subject} >= {}", self.value(e)));
                let op = if *inclusive { "<=" } else { "<" };
                let to = to.as_ref().map(|e| format!("{subject} {op} {}", self.value(e)));
                match (from, to) {
                    (Some(a), Some(b)) => Some(Text { text: format!("{a} && {b}"), level: AND_ALSO }),
                    (Some(a), None) | (None, Some(a)) => Some(Text { text: a, level: COMPARE }),
                    (None, None) => None,
                }
            }
            Test::Any(tests) => {
                let mut all = Vec::new();
                for test in tests {
                    all.push(self.test(test, bound)?.at_least(BITS));
                }
                Some(Text { text: all.join(" || "), level: OR_ELSE })
            }
        }
    }

    /// A lambda that is called at once: a value that needs statements.
    fn immediate(&mut self, e: &Expr, f: impl FnOnce(&mut Self, &Ty)) -> Text {
        if leave::escapes(e) {
            self.report.at(e.span, messages::RETURN_IN_VALUE);
        } else if leave::assigns_around(e) {
            self.report.at(e.span, messages::CHANGE_IN_VALUE);
        }
        let ret = self.settled(&e.ty);
        let arrow = spelled(&ret, self.types).map(|t| format!("() -> {t}")).unwrap_or_default();
        if arrow.is_empty() {
            // the compiler finds one type for all branches, or none
            let values = literals::values(e);
            if let Some(literal) = values.iter().find(|v| literals::is_literal(v))
                && !values.iter().all(|v| literals::is_literal(v))
            {
                self.report.at(literal.span, messages::UNTYPED_LITERAL);
            }
        }
        let body = self.aside(|w| f(w, &ret));
        let close = "  ".repeat(self.indent);
        Text::atom(format!("[&]{arrow} {{\n{body}{close}}}()"))
    }

    fn lambda(&mut self, params: &str, ret: &Ty, body: &Block) -> Text {
        let arrow = spelled(ret, self.types).unwrap_or_else(|| "auto".into());
        if let Some(value) = simple(body)
            && !matches!(value.kind, Kind::If { .. } | Kind::Match { .. })
        {
            let value = self.value(value);
            return Text::atom(format!("[&]({params}) -> {arrow} {{ return {value}; }}"));
        }
        let body = self.aside(|w| w.body(body, ret));
        let close = "  ".repeat(self.indent);
        Text::atom(format!("[&]({params}) -> {arrow} {{\n{body}{close}}}"))
    }
}

/// The value of a block that is nothing else.
pub(super) fn simple(block: &Block) -> Option<&Expr> {
    let tail = block.tail.as_deref().filter(|_| block.stmts.is_empty())?;
    match &tail.kind {
        Kind::Block(inner) => simple(inner),
        Kind::If { then, other, .. } => {
            simple(then)?;
            simple(other.as_ref()?)?;
            Some(tail)
        }
        Kind::Match { .. } | Kind::Diverge(_) => None,
        _ => Some(tail),
    }
}

/// `name[index]`; `[[` would begin an attribute.
pub(super) fn subscript(name: &str, index: &str) -> String {
    if index.starts_with('[') { format!("{name}[({index})]") } else { format!("{name}[{index}]") }
}

/// Bit-exact: the shortest decimal that reads back as the same f32.
fn float(x: f32) -> Text {
    let text = match x.is_infinite() {
        true => if x > 0.0 { "F32_INFINITY" } else { "-F32_INFINITY" }.to_owned(),
        false => format!("{x:?}f"),
    };
    Text { level: if text.starts_with('-') { UNARY } else { ATOM }, text }
}
