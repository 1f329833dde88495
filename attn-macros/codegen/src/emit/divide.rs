//! Division by a scalar parameter, which the host prepares (cuda/lang/divide.cuh): a multiplication instead of a loop.

use super::Writer;
use crate::{
    ir::{Expr, Kind, Op},
    names,
    types::Ty,
};

impl Writer<'_> {
    /// `div_by` and `name_div_` for `a / self.name`, unless both are f32.
    pub(super) fn by_parameter(&mut self, op: Op, a: &Expr, b: &Expr) -> Option<(&'static str, String)> {
        let function = match op {
            Op::Div => "div_by",
            Op::Rem => "rem_by",
            _ => return None,
        };
        Some((function, self.divisor(a, b)?))
    }

    /// The member that stands for `b` as a divisor of `a`. Where types are not seen they may be f32: it serves those too.
    pub(super) fn divisor(&mut self, a: &Expr, b: &Expr) -> Option<String> {
        if !matches!(self.settled(&a.ty), Ty::I32 | Ty::U32 | Ty::Var(_)) {
            return None;
        }
        let name = self.parameter(b)?;
        let member = names::divisor(&name);
        self.reads(&name);
        self.used.divisors.entry(name).or_insert(b.span);
        Some(member)
    }

    /// Notes a parameter.
    pub(super) fn reads(&mut self, name: &str) {
        self.used.params.insert(name.strip_prefix("r#").unwrap_or(name).to_owned());
    }

    /// Notes a parameter that is compared.
    pub(super) fn compares(&mut self, e: &Expr) {
        if let Some(name) = self.parameter(e) {
            self.used.compared.insert(name);
        }
    }

    /// The scalar parameter that an expression is.
    pub(super) fn parameter(&self, e: &Expr) -> Option<String> {
        match &e.kind {
            Kind::Param(name) => Some(name.strip_prefix("r#").unwrap_or(name).to_owned()),
            Kind::Local(local) => self.params.get(local).cloned(),
            _ => None,
        }
    }
}
