//! Methods of a stored row and of the row that is stored: the arguments of a KV format's `encode` and `decode`.

use super::{ir_builder::IrBuilder, row, syntax::strip};
use crate::ir::{Expr, Kind};
use crate::report::SpanRange;
use crate::types::Ty;
use crate::{messages, names};

/// An argument of a method.
#[derive(Clone, Copy)]
enum Arg {
    I32,
    U32,
    F32,
    /// The row that is stored.
    Row,
    /// A closure that gives the code of an element.
    Code,
    /// A closure that gives a number for each element.
    Value,
}

/// A method: its name in Rust and in the text, its arguments, and its result.
type Method = (&'static str, &'static str, &'static [Arg], Ty);

use Arg::{Code, F32, I32, Row, U32, Value};

/// The methods of bytes that are read. In the text `u32` is a type, so these names end in `_at`.
const PACKED: &[Method] = &[
    ("u8", "u8_at", &[I32], Ty::U32),
    ("u16", "u16_at", &[I32], Ty::U32),
    ("u32", "u32_at", &[I32], Ty::U32),
    // arrays, which have no constants
    ("words2", "words2", &[I32], Ty::Unit),
    ("scaled_e4m3", "scaled_e4m3", &[I32, F32], Ty::Unit),
    ("f32", "f32_at", &[I32], Ty::F32),
    ("f16", "f16_at", &[I32], Ty::F32),
    ("bf16", "bf16_at", &[I32], Ty::F32),
    ("e4m3", "e4m3_at", &[I32], Ty::F32),
    ("e8m0", "e8m0_at", &[I32], Ty::F32),
];

/// The methods of bytes that are written.
const PACKED_MUT: &[Method] = &[
    ("set_u8", "set_u8", &[I32, U32], Ty::Unit),
    ("set_u16", "set_u16", &[I32, U32], Ty::Unit),
    ("set_u32", "set_u32", &[I32, U32], Ty::Unit),
    ("set_f32", "set_f32", &[I32, F32], Ty::Unit),
    ("set_f16", "set_f16", &[I32, F32], Ty::Unit),
    ("set_bf16", "set_bf16", &[I32, F32], Ty::Unit),
    ("set_e4m3", "set_e4m3", &[I32, F32], Ty::Unit),
    ("pack4", "pack4", &[I32, Row, I32, I32, Code], Ty::Unit),
    ("pack8", "pack8", &[I32, Row, I32, I32, Code], Ty::Unit),
    ("pack16", "pack16", &[I32, Row, I32, I32, Code], Ty::Unit),
];

/// The methods of the row that is stored.
const ENCODE_ROW: &[Method] = &[
    ("dim", "dim", &[], Ty::I32),
    ("max_abs", "max_abs", &[I32, I32], Ty::F32),
    ("max", "max", &[I32, I32], Ty::F32),
    ("min", "min", &[I32, I32], Ty::F32),
    ("sum", "sum", &[I32, I32, Value], Ty::F32),
    ("sum_sq", "sum_sq", &[I32, I32], Ty::F32),
];

pub(super) fn method(builder: &mut IrBuilder<'_>, e: &syn::ExprMethodCall, receiver: &Expr) -> Expr {
    let Kind::Local(local) = receiver.kind else {
        return builder.refused(e, messages::EXPRESSION);
    };
    let (methods, what) = match builder.resolve(&receiver.ty) {
        Ty::Packed(_) => (PACKED, "a stored row"),
        Ty::PackedMut(_) => (PACKED_MUT, "a row that is written"),
        _ => (ENCODE_ROW, "the row that is stored"),
    };
    let name = e.method.to_string();
    let Some((_, text, want, result)) = methods.iter().find(|(rust, ..)| *rust == name) else {
        let known = || methods.iter().map(|(rust, ..)| *rust);
        let hint = match (names::nearest(&name, known()), name.as_str()) {
            (_, "at") => "its closures read the elements, as in `codes.pack8(0, x, 0, x.dim(), |d, v| ..)`".into(),
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, _) => format!("there are {}", known().collect::<Vec<_>>().join(", ")),
        };
        return builder.refused(&e.method, format!("{what} has no `{name}`: {hint}"));
    };
    if e.args.len() != want.len() {
        return builder.refused(&e.method, format!("`{name}` takes {} argument(s)", want.len()));
    }
    let args = e.args.iter().zip(*want).map(|(arg, want)| match want {
        I32 => builder.expr_as(arg, &Ty::I32),
        U32 => builder.expr_as(arg, &Ty::U32),
        F32 => builder.expr_as(arg, &Ty::F32),
        Row => stored_row(builder, arg),
        Code => row::closure(builder, arg, &[Ty::I32, Ty::F32], Ty::U32),
        Value => row::closure(builder, arg, &[Ty::I32, Ty::F32], Ty::F32),
    });
    let args = args.collect();
    let ty = match *text {
        "words2" => Ty::Array(Box::new(Ty::U32), 2),
        "scaled_e4m3" => Ty::Array(Box::new(Ty::F32), 8),
        _ => result.clone(),
    };
    Expr { kind: Kind::Packed(local, text, args), ty, span: SpanRange::of(e) }
}

/// The row as an argument of `pack8`.
fn stored_row(builder: &mut IrBuilder<'_>, arg: &syn::Expr) -> Expr {
    let found = match strip(arg) {
        syn::Expr::Path(p) => p.path.get_ident().and_then(|name| builder.lookup(&name.to_string())),
        _ => None,
    };
    match found.filter(|&local| builder.locals[local].ty == Ty::EncodeRow) {
        // its name in the text: as a value, a row is refused
        Some(local) => {
            let kind = Kind::Const(builder.locals[local].name.clone());
            Expr { kind, ty: Ty::EncodeRow, span: SpanRange::of(arg) }
        }
        None => builder.refused(arg, messages::ENCODED_ROW),
    }
}
