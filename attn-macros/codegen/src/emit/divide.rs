//! Division by a scalar parameter. The host prepares a `Divisor` (cuda/lang/divide.cuh), so that the kernel multiplies
//! instead of dividing.

use super::writer::CudaWriter;
use crate::{
    ir::{Expr, Kind, Op},
    names,
    types::Ty,
};

impl CudaWriter<'_> {
    /// `div_by` and the member `name_div_` for `a / self.name`, unless both are f32.
    pub(super) fn by_parameter(&mut self, op: Op, a: &Expr, b: &Expr) -> Option<(&'static str, String)> {
        let function = match op {
            Op::Div => "div_by",
            Op::Rem => "rem_by",
            _ => return None,
        };
        Some((function, self.divisor(a, b)?))
    }

    /// The divisor member for `b`, where it can divide `a`. A type that the macro cannot see may be f32; divisors have
    /// an overload for that.
    pub(super) fn divisor(&mut self, a: &Expr, b: &Expr) -> Option<String> {
        if !matches!(self.settled(&a.ty), Ty::I32 | Ty::U32 | Ty::Var(_)) {
            return None;
        }
        let name = self.parameter(b)?;
        let member = names::divisor(&name);
        self.record_param(&name);
        self.used.divisors.entry(name).or_insert(b.span);
        Some(member)
    }

    /// Records that a parameter is read.
    pub(super) fn record_param(&mut self, name: &str) {
        self.used.params.insert(name.strip_prefix("r#").unwrap_or(name).to_owned());
    }

    /// Records that a parameter is compared: a comparison may guard a division by it.
    pub(super) fn record_compared(&mut self, e: &Expr) {
        if let Some(name) = self.parameter(e) {
            self.used.compared.insert(name);
        }
    }

    /// The scalar parameter that an expression reads directly, or through an immutable local.
    pub(super) fn parameter(&self, e: &Expr) -> Option<String> {
        match &e.kind {
            Kind::Param(name) => Some(name.strip_prefix("r#").unwrap_or(name).to_owned()),
            Kind::Local(local) => self.params.get(local).cloned(),
            _ => None,
        }
    }
}
