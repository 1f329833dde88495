//! Expressions as C++ text, with few parentheses.

use super::control::single_value;
use super::cpp_type::{spelled, spelled_or_auto};
use super::precedence::{ATOM, CppExpr, UNARY, float, subscript};
use super::writer::CudaWriter;
use super::{array, divide};
use crate::ir::{Expr, Kind};
use crate::types::Ty;
use crate::{budget, messages, names};

impl CudaWriter<'_> {
    pub(super) fn value(&mut self, e: &Expr) -> String {
        self.text(e).text
    }

    pub(super) fn text(&mut self, e: &Expr) -> CppExpr {
        if !budget::spend(1) {
            return CppExpr::atom("0");
        }
        match &e.kind {
            Kind::Int(n) => CppExpr::atom(self.integer(*n, &e.ty)),
            Kind::Float(x) => float(*x),
            Kind::Bool(b) => CppExpr::atom(b.to_string()),
            // `()` has no variable
            Kind::Local(_) if self.settled(&e.ty) == Ty::Unit => CppExpr::atom("0"),
            Kind::Local(local) if Some(*local) == self.logit => CppExpr::atom(format!("float({})", self.name(*local))),
            Kind::Local(local) => CppExpr::atom(self.name(*local)),
            Kind::Param(name) => {
                self.used.read(name);
                CppExpr::atom(names::param(name))
            }
            Kind::Element(name, indices) => {
                self.used.read(name);
                let rank = indices.len();
                let name = names::param(name);
                let indices = self.list(indices);
                CppExpr::atom(if rank != 1 { format!("{name}({indices})") } else { subscript(&name, &indices) })
            }
            Kind::Store { name, method, index, value } => {
                self.used.stores = true;
                self.used.read(name);
                let (value, index) = (self.value(value), self.list(index));
                CppExpr::atom(format!("{}.{method}({value}, {index})", names::param(name)))
            }
            Kind::Coordinate(local, word) => {
                self.used.slots |= word == "kv_slot";
                CppExpr::atom(format!("{}.{word}", self.name(*local)))
            }
            Kind::Const(name) => CppExpr::atom(name),
            Kind::Builtin(name) => CppExpr::atom(*name),
            Kind::NegInfinity => CppExpr { text: "-F32_INFINITY".into(), precedence: UNARY },
            Kind::Neg(inner) => self.negation(e, inner),
            Kind::Not(inner) => self.complement(inner),
            Kind::Binary(op, a, b) => {
                array::check_index_arithmetic(self, *op, a, b, e.span);
                self.binary(*op, a, b)
            }
            Kind::Array(items) => array::value(self, e, items),
            Kind::Repeat(item, len) => {
                let item = self.value(item);
                CppExpr::atom(format!("{}repeat<{len}>({item})", self.prefix))
            }
            Kind::Index(array, index) => {
                let index = array::checked_index(self, &array.ty, index);
                let array = self.text(array).at_least(ATOM);
                CppExpr::atom(subscript(&array, &index))
            }
            Kind::SetElement { .. } => {
                self.report.at(e.span, messages::CHANGE_IN_VALUE);
                CppExpr::atom("0")
            }
            Kind::Cast(inner, to) => self.cast(inner, to),
            Kind::Call(name @ ("rem_euclid" | "div_euclid"), args)
                if divide::divisor(self, &args[0], &args[1]).is_some() =>
            {
                let by = divide::divisor(self, &args[0], &args[1]).unwrap_or_default();
                let a = self.value(&args[0]);
                CppExpr::atom(format!("{name}_by({a}, {by})"))
            }
            Kind::Call(name, args) => {
                array::check_index_method(self, name, args, e.span);
                if let Some(plain) = self.wrapping(name, args) {
                    return plain;
                }
                let args = self.list(args);
                CppExpr::atom(format!("{}{name}({args})", self.prefix))
            }
            Kind::Helper(name, args) => {
                let args = self.list(args);
                CppExpr::atom(format!("{name}({args})"))
            }
            Kind::HelperOf(name, consts, args) => {
                let (consts, args) = (self.list(consts), self.list(args));
                CppExpr::atom(format!("{name}<{consts}>({args})"))
            }
            // a function of its own header, which other kernels do not have
            Kind::Row(row, "hadamard", _) => CppExpr::atom(format!("hadamard({})", self.name(*row))),
            Kind::Row(row, method, args) | Kind::Packed(row, method, args) => {
                let args = self.list(args);
                CppExpr::atom(format!("{}.{method}({args})", self.name(*row)))
            }
            Kind::Closure { params, ret, body } => {
                let params: Vec<String> = params
                    .iter()
                    .map(|(local, ty)| {
                        let ty = spelled_or_auto(ty, self.types);
                        local.map_or_else(|| ty.clone(), |l| format!("{ty} {}", self.name(l)))
                    })
                    .collect();
                self.lambda(&params.join(", "), ret, body)
            }
            Kind::Tuple(items) => {
                let known = self.settled(&e.ty) == Ty::pair();
                let items = self.list(items);
                CppExpr::atom(if known { format!("Pair{{{items}}}") } else { format!("{}tuple({items})", self.prefix) })
            }
            Kind::TupleField(inner, i) => {
                let inner = self.text(inner).at_least(ATOM);
                CppExpr::atom(format!("{inner}.{}", names::TUPLE_FIELDS.get(*i).unwrap_or(&"w")))
            }
            Kind::Aggregate(items) => {
                let ty = spelled(&e.ty, self.types).unwrap_or_default();
                let items = self.list(items);
                CppExpr::atom(format!("{ty}{{{items}}}"))
            }
            Kind::Struct { ty, base, fields } => self.structure(ty, base.as_deref(), fields),
            Kind::Field(inner, name) => {
                let inner = self.text(inner).at_least(ATOM);
                CppExpr::atom(format!("{inner}.{name}"))
            }
            Kind::Variant { ty, name, .. } => CppExpr::atom(format!("{ty}::{name}")),
            Kind::If { cond, then, other } => self.if_value(e, cond, then, other.as_ref()),
            Kind::Match { subject, bound, arms } => self.match_value(e, subject, *bound, arms),
            Kind::Block(block) => match single_value(block) {
                Some(value) => self.text(value),
                None => self.called_lambda(e, |w, ret| w.body(block, ret)),
            },
            Kind::Diverge(_) => {
                self.report.at(e.span, messages::RETURN_IN_VALUE);
                CppExpr::atom("0")
            }
            Kind::Error => CppExpr::atom("0"),
        }
    }

    pub(super) fn list(&mut self, items: &[Expr]) -> String {
        let items: Vec<String> = items.iter().map(|e| self.value(e)).collect();
        items.join(", ")
    }

    /// A struct literal as a chain of setters: the order of fields in the definition is unknown here.
    fn structure(&mut self, ty: &str, base: Option<&Expr>, fields: &[(String, Expr)]) -> CppExpr {
        let mut text = match base {
            Some(base) => self.text(base).at_least(ATOM),
            None => format!("{ty}{{}}"),
        };
        for (name, value) in fields {
            let value = self.value(value);
            text.push_str(&format!(".{}({value})", names::with_field(name)));
        }
        CppExpr::atom(text)
    }

    fn integer(&self, n: u64, ty: &Ty) -> String {
        match self.settled(ty) {
            Ty::U32 => format!("{n}u"),
            Ty::U64 => format!("{n}ull"),
            Ty::I64 => format!("{n}ll"),
            Ty::U8 => format!("u8({n})"),
            _ if n > u64::from(u32::MAX) => format!("{n}ull"),
            _ if n > i32::MAX as u64 => format!("{n}u"),
            _ => n.to_string(),
        }
    }
}
