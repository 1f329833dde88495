//! Functions that give the same bits on every device: those of KV formats, and the helpers that they call.

use crate::ir::{Block, Expr, Function, Kind, Part};
use crate::messages;
use crate::report::{Report, SpanRange};

/// Functions of the language, by their names in the text, whose last bits differ between devices.
const DIFFERING: &[(&str, &str)] = &[
    ("exp", "exp"),
    ("exp2", "exp2"),
    ("exp_m1", "exp_m1"),
    ("ln", "ln"),
    ("ln_1p", "ln_1p"),
    ("log2", "log2"),
    ("log10", "log10"),
    ("recip", "recip"),
    ("sin", "sin"),
    ("cos", "cos"),
    ("sin_cos", "sin_cos"),
    ("tan", "tan"),
    ("tanh", "tanh"),
    ("sinh", "sinh"),
    ("cosh", "cosh"),
    ("asin", "asin"),
    ("acos", "acos"),
    ("atan", "atan"),
    ("atan2", "atan2"),
    ("hypot", "hypot"),
    ("cbrt", "cbrt"),
    ("powi", "powi"),
    ("powf", "powf"),
    ("erf", "math::erf"),
    ("approx_tanh", "approx::tanh"),
    ("approx_exp", "approx::exp"),
    ("approx_recip", "approx::recip"),
    ("approx_sin_cos", "approx::sin_cos"),
];

/// The first call of a function whose last bits differ between devices: its name in Rust, and its place.
pub(crate) fn differing(f: &Function) -> Option<(&'static str, SpanRange)> {
    let mut found = None;
    for part in f.body.parts() {
        part.any(&mut |part| {
            found = found.or_else(|| called(part));
            found.map(|_| true)
        });
    }
    found
}

fn called(part: Part<'_>) -> Option<(&'static str, SpanRange)> {
    let Part::Expr(Expr { kind: Kind::Call(name, _), span, .. }) = part else { return None };
    DIFFERING.iter().find(|(text, _)| text == name).map(|(_, rust)| (*rust, *span))
}

/// Checks a function of a KV format.
pub(crate) fn check(f: &Function, report: &mut Report) {
    block(&f.body, false, report);
}

fn block(of: &Block, in_closure: bool, report: &mut Report) {
    of.parts().for_each(|part| check_part(part, in_closure, report));
}

fn check_part(part: Part<'_>, in_closure: bool, report: &mut Report) {
    if let Some((name, span)) = called(part) {
        report.at(span, format!("`{name}` {}", messages::INEXACT));
    }
    match part {
        Part::Expr(Expr { kind: Kind::Local(_), ty, span }) if ty.is_stored_row() => {
            report.at(*span, messages::STORED_ROW_VALUE);
        }
        // a warp shares the work of a closure
        Part::Expr(Expr { kind: Kind::Packed(_, method, _), span, .. }) if in_closure && *method != "dim" => {
            report.at(*span, messages::COLLECTIVE_IN_CODE);
        }
        Part::Expr(Expr { kind: Kind::Closure { body, .. }, .. }) => return block(body, true, report),
        _ => {}
    }
    part.children().into_iter().for_each(|part| check_part(part, in_closure, report));
}
