//! Division by a scalar parameter. The host prepares a `Divisor` (cuda/lang/divide.cuh), so that the kernel multiplies
//! instead of dividing.

use super::writer::CudaWriter;
use crate::ir::{Expr, Kind, Op};
use crate::names;
use crate::types::Ty;

/// `div_by` and the member `name_div_` for `a / self.name`, unless both are f32.
pub(super) fn by_parameter(writer: &mut CudaWriter<'_>, op: Op, a: &Expr, b: &Expr) -> Option<(&'static str, String)> {
    let function = match op {
        Op::Div => "div_by",
        Op::Rem => "rem_by",
        _ => return None,
    };
    Some((function, divisor(writer, a, b)?))
}

/// The divisor member for `b`, where it can divide `a`. A type that the macro cannot see may be f32; divisors have
/// an overload for that.
pub(super) fn divisor(writer: &mut CudaWriter<'_>, a: &Expr, b: &Expr) -> Option<String> {
    if !matches!(writer.settled(&a.ty), Ty::I32 | Ty::U32 | Ty::Var(_)) {
        return None;
    }
    let name = parameter(writer, b)?;
    let member = names::divisor(&name);
    writer.used.read(&name);
    writer.used.divisors.entry(name).or_insert(b.span);
    Some(member)
}

/// Records that a parameter is compared: a comparison may guard a division by it.
pub(super) fn record_compared(writer: &mut CudaWriter<'_>, e: &Expr) {
    if let Some(name) = parameter(writer, e) {
        writer.used.compared.insert(name);
    }
}

/// The scalar parameter that an expression reads directly, or through an immutable local.
pub(super) fn parameter(writer: &CudaWriter<'_>, e: &Expr) -> Option<String> {
    match &e.kind {
        Kind::Param(name) => Some(name.strip_prefix("r#").unwrap_or(name).to_owned()),
        Kind::Local(local) => writer.params.get(local).cloned(),
        _ => None,
    }
}
