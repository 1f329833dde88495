//! Statements as C++ text.

use std::num::NonZeroU8;

use super::{array, control::single_value, divide, writer::CudaWriter};
use crate::ir::{Block, Expr, Kind, LocalId, Op, Stmt};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{literals, names};

/// Where the value of an expression goes.
#[derive(Clone, Debug)]
enum Dest {
    Return,
    Local(LocalId),
    Nowhere,
}

impl CudaWriter<'_> {
    /// Writes a whole body, whose value is returned.
    pub(super) fn body(&mut self, block: &Block, ret: &Ty) {
        let dest = if *ret == Ty::Unit { Dest::Nowhere } else { Dest::Return };
        self.block(block, &dest);
    }

    /// Writes an expression as a whole body.
    pub(super) fn tail(&mut self, e: &Expr, ret: &Ty) {
        let dest = if *ret == Ty::Unit { Dest::Nowhere } else { Dest::Return };
        self.into(e, &dest);
    }

    fn block(&mut self, block: &Block, dest: &Dest) {
        for stmt in &block.stmts {
            self.stmt(stmt);
        }
        if let Some(tail) = &block.tail {
            self.into(tail, dest);
        }
    }

    fn nested(&mut self, block: &Block, dest: &Dest) {
        self.indent += 1;
        self.block(block, dest);
        self.indent -= 1;
    }

    fn into(&mut self, e: &Expr, dest: &Dest) {
        match &e.kind {
            Kind::If { cond, then, other } => {
                let ternary = !matches!(dest, Dest::Nowhere)
                    && is_plain_value(then)
                    && other.as_ref().is_some_and(is_plain_value);
                if !ternary {
                    return self.if_else(cond, then, other.as_ref(), dest, "");
                }
            }
            Kind::Match { subject, bound, arms } => {
                if !self.alias(subject, *bound) {
                    let value = self.value(subject);
                    let name = self.name(*bound);
                    self.line(&format!("const auto {name} = {value};"));
                }
                let mut prefix = "";
                for (i, arm) in arms.iter().enumerate() {
                    let last = i + 1 == arms.len();
                    let condition = self.arm_condition(arm, *bound);
                    let always = condition.is_none();
                    match condition {
                        Some(cond) if !last => self.line(&format!("{prefix}if ({cond}) {{")),
                        _ if prefix.is_empty() => self.line("{"),
                        _ => self.line("} else {"),
                    }
                    prefix = "} else ";
                    self.nested(&arm.body, dest);
                    if !last && always {
                        break;
                    }
                }
                return self.line("}");
            }
            Kind::Block(block) => return self.block(block, dest),
            Kind::Diverge(stmt) => return self.stmt(stmt),
            Kind::SetElement { local, index, op, value } => return array::set_element(self, *local, index, *op, value),
            _ => {}
        }
        let value = self.value(e);
        match dest {
            Dest::Return => self.line(&format!("return {value};")),
            Dest::Local(local) => {
                let name = self.name(*local);
                self.line(&format!("{name} = {value};"));
            }
            Dest::Nowhere if matches!(e.kind, Kind::Row(..) | Kind::Packed(..) | Kind::Store { .. }) => {
                self.line(&format!("{value};"));
            }
            Dest::Nowhere => self.line(&format!("(void)({value});")),
        }
    }

    fn if_else(&mut self, cond: &Expr, then: &Block, other: Option<&Block>, dest: &Dest, prefix: &str) {
        let cond = self.value(cond);
        self.line(&format!("{prefix}if ({cond}) {{"));
        self.nested(then, dest);
        match other {
            None => self.line("}"),
            Some(other) => match other.tail.as_deref() {
                Some(Expr { kind: Kind::If { cond, then, other: rest }, .. }) if other.stmts.is_empty() => {
                    self.if_else(cond, then, rest.as_ref(), dest, "} else ");
                }
                _ => {
                    self.line("} else {");
                    self.nested(other, dest);
                    self.line("}");
                }
            },
        }
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Let { local, init } => self.let_local(*local, init),
            Stmt::LetTuple { parts, whole, init } => self.let_tuple(parts, *whole, init),
            Stmt::Expr(e) => self.into(e, &Dest::Nowhere),
            Stmt::Assign { local, op, value, span } => self.assign(*local, *op, value, *span),
            Stmt::For { var, temporaries, from, to, inclusive, unroll, body } => {
                self.for_loop(*var, **temporaries, from, to, (*inclusive, *unroll));
                self.nested(body, &Dest::Nowhere);
                self.line("}");
            }
            Stmt::Return(None) => self.line("return;"),
            Stmt::Return(Some(e)) if self.settled(&e.ty) == Ty::Unit => {
                self.into(e, &Dest::Nowhere);
                self.line("return;");
            }
            Stmt::Return(Some(e)) => self.into(e, &Dest::Return),
            Stmt::Break => self.line("break;"),
            Stmt::Continue => self.line("continue;"),
        }
    }

    fn let_local(&mut self, local: LocalId, init: &Expr) {
        if self.settled(&init.ty) == Ty::Unit {
            return self.into(init, &Dest::Nowhere);
        }
        let ty = self.declared(local);
        let name = self.name(local);
        let mutable = self.function.locals[local].mutable;
        if !mutable && let Some(range) = self.intervals.of(init) {
            self.intervals.insert(local, range);
        }
        if !mutable && let Some(param) = divide::parameter(self, init) {
            self.params.insert(local, param);
        }
        let is_simple = match &init.kind {
            Kind::If { then, other, .. } => is_plain_value(then) && other.as_ref().is_some_and(is_plain_value),
            Kind::Match { .. } => false,
            Kind::Block(block) => single_value(block).is_some(),
            _ => true,
        };
        match ty {
            Some(ty) if !is_simple => {
                self.line(&format!("{ty} {name};"));
                self.into(init, &Dest::Local(local));
            }
            _ => {
                let value = self.value(init);
                self.declare(local, &value);
            }
        }
    }

    fn let_tuple(&mut self, parts: &[Option<LocalId>], whole: LocalId, init: &Expr) {
        if let Kind::Tuple(items) = &init.kind {
            for (part, item) in parts.iter().zip(items) {
                if let Some(local) = part {
                    self.let_local(*local, item);
                }
            }
            return;
        }
        self.let_local(whole, init);
        let whole = self.name(whole);
        for (part, field) in parts.iter().zip(names::TUPLE_FIELDS) {
            let Some(local) = *part else { continue };
            self.declare(local, &format!("{whole}.{field}"));
        }
    }

    fn declare(&mut self, local: LocalId, value: &str) {
        let (ty, name) = (self.declared(local).unwrap_or_else(|| "auto".into()), self.name(local));
        let constant = if self.function.locals[local].mutable { "" } else { "const " };
        self.line(&format!("{constant}{ty} {name} = {value};"));
    }

    pub(super) fn assign(&mut self, local: LocalId, op: Option<Op>, value: &Expr, span: SpanRange) {
        let name = self.name(local);
        let Some(op) = op else {
            return self.into(value, &Dest::Local(local));
        };
        let target = Expr { kind: Kind::Local(local), ty: self.function.locals[local].ty.clone(), span: value.span };
        if let Some((function, by)) = divide::by_parameter(self, op, &target, value) {
            return self.line(&format!("{name} = {function}({name}, {by});"));
        }
        let is_bool = self.settled(&target.ty) == Ty::Bool;
        array::check_index_arithmetic(self, op, &target, value, span);
        let plain = self.is_plain(op, &target, value);
        let value = self.value(value);
        if let Some(function) = self.rounded(op, &target.ty) {
            return self.line(&format!("{name} = {}{function}({name}, {value});", self.prefix));
        }
        self.line(&if plain && !is_bool {
            format!("{name} {}= {value};", op.symbol())
        } else if plain {
            format!("{name} = bool({name} {} ({value}));", op.symbol())
        } else {
            format!("{name} = {}{}({name}, {value});", self.prefix, op.function())
        });
    }

    fn pragma(&mut self, unroll: Option<NonZeroU8>, rounds: Option<i64>) {
        match unroll {
            Some(count) => self.line(&format!("#pragma unroll {count}")),
            // arrays stay in registers
            None if self.exact && rounds.is_some_and(|rounds| rounds <= 16) => self.line("ATTN_UNROLL"),
            None => {}
        }
    }

    /// Writes the head of a loop.
    fn for_loop(
        &mut self,
        var: LocalId,
        [end, step]: [LocalId; 2],
        from: &Expr,
        to: &Expr,
        (inclusive, unroll): (bool, Option<NonZeroU8>),
    ) {
        let (i, end) = (self.name(var), self.name(end));
        let ty = self.declared(var);
        let (from_text, to_text) = (self.value(from), self.value(to));
        let rounds = match (&from.kind, &to.kind) {
            (Kind::Int(from), Kind::Int(to)) => i64::try_from(to.saturating_sub(*from)).ok(),
            _ => None,
        };
        let compare = if inclusive { "<=" } else { "<" };
        if let (Some((low, _)), Some((_, high))) = (self.intervals.of(from), self.intervals.of(to)) {
            let last = if inclusive { high } else { high - 1 };
            self.intervals.insert(var, (low, last.max(low)));
        }
        let fixed = matches!(to.kind, Kind::Int(_) | Kind::Param(_) | Kind::Const(_) | Kind::Coordinate(..));
        // incrementing past the largest value would overflow: such a loop compares before it increments
        let may_wrap = inclusive
            && !match ty.as_deref() {
                Some("int") => self.intervals.of(to).is_some_and(|(_, n)| n < i64::from(i32::MAX)),
                Some("i64") => self.intervals.of(to).is_some_and(|(_, n)| n < i64::MAX),
                _ => false,
            };
        let mut inner = None;
        if let Some(ty) = &ty
            && fixed
            && !may_wrap
        {
            self.pragma(unroll, rounds);
            self.line(&format!("for ({ty} {i} = {from_text}; {i} {compare} {to_text}; ++{i}) {{"));
        } else {
            let auto = ty.clone().unwrap_or_else(|| "auto".into());
            self.line(&format!("const {auto} {end} = {to_text};"));
            // the variable has the type of the bounds, which an untyped literal does not give
            let ty = ty.unwrap_or_else(|| match literals::is_made_of_literals(to) {
                true => format!("Plain<decltype({from_text})>"),
                false => format!("Plain<decltype({end})>"),
            });
            self.pragma(unroll, rounds);
            if may_wrap {
                let step = self.name(step);
                self.line(&format!(
                    "for (Tuple2<{ty}, bool> {step} = {{{from_text}, ({from_text}) <= {end}}}; {step}.y;"
                ));
                self.line(&format!("     {step}.x != {end} ? void(++{step}.x) : void({step}.y = false)) {{"));
                inner = Some(format!("const {ty} {i} = {step}.x;"));
            } else {
                self.line(&format!("for ({ty} {i} = {from_text}; {i} {compare} {end}; ++{i}) {{"));
            }
        }
        self.indent += 1;
        inner.iter().for_each(|line| self.line(line));
        self.indent -= 1;
    }
}

/// Whether a block is a value without branches inside, which reads well in a `?:`.
fn is_plain_value(block: &Block) -> bool {
    single_value(block).is_some_and(|e| !matches!(e.kind, Kind::If { .. } | Kind::Match { .. }))
}
