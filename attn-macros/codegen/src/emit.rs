//! C++ text of a function.
//!
//! Types that the macro cannot see are left to C++ (`auto`, overloads of lang/lang.cuh). Integer arithmetic is written
//! with plain operators where it provably cannot overflow (`interval`), and elsewhere with functions that wrap as
//! Rust does: NVRTC has no -fwrapv, so signed overflow would be undefined.

mod array;
mod control;
mod cpp_type;
mod divide;
mod function;
mod interval;
mod logit_factor;
mod logits_bias;
mod logits_bias_row;
mod logits_bound;
mod logits_slope;
mod operator_value;
mod precedence;
mod side_effects;
mod stmt;
mod value;
mod writer;

pub(crate) use cpp_type::spelled;
pub(crate) use function::value as module_value;
pub(crate) use logits_bias::bias;
pub(crate) use logits_bias_row::bias_row;
pub(crate) use logits_bound::bound;
pub(crate) use logits_slope::slope;
pub use writer::Used;

use crate::ir::Function;
use crate::names;
use crate::report::Report;
use crate::types::{Ty, Types};
use cpp_type::spelled_or_auto;
use function::{Arguments, Output};

/// Emits a hook as a const member function.
pub(crate) fn hook(f: &Function, types: &Types, file: &str, used: &mut Used, report: &mut Report) -> String {
    let template = if f.args.iter().any(|argument| argument.ty == Ty::Row) { "template <class R> " } else { "" };
    let head = format!("{template}ATTN_FN {} {}", spelled_or_auto(&f.ret, types), f.name);
    names::comments("///", &f.doc)
        + &function::whole(f, [&head, " const"], Output { types, file, used, report, prefix: "", exact: false })
}

/// Emits a function of a KV format as a const member function.
pub(crate) fn kv_function(f: &Function, types: &Types, file: &str, used: &mut Used, report: &mut Report) -> String {
    let template = match f.name.as_str() {
        "encode" => "template <class R, class C, class S> ",
        "decode" => "template <class Eight = Array<float, 8>, class C, class S> ",
        "level" => "",
        _ => "template <class S> ",
    };
    // what a kernel multiplies may be made of an array, and of `scaled_e4m3` in f16
    let ret = if f.name == "decode" { "Eight".into() } else { spelled_or_auto(&f.ret, types) };
    let head = format!("{template}ATTN_FN {ret} {}", f.name);
    let output = Output { types, file, used, report, prefix: "", exact: true };
    let text = function::with_body(f, [&head, " const"], Arguments::All, output, |writer| {
        // the head, and the first of eight elements
        for argument in f.args.iter().filter(|argument| argument.ty == Ty::I32) {
            argument.local.into_iter().for_each(|local| writer.intervals.insert(local, (0, (1 << 16) - 8)));
        }
        writer.body(&f.body, &f.ret);
    });
    names::comments("///", &f.doc) + &text
}

/// Emits a helper as a static member function; `exact` as KV formats call it.
pub(crate) fn helper(
    f: &Function,
    generics: &[(String, String, Ty)],
    types: &Types,
    (file, exact): (&str, bool),
    report: &mut Report,
) -> String {
    let name = names::helper(&f.name);
    let consts = generics.iter().map(|(_, name, ty)| format!("{} {name}", spelled(ty, types).unwrap_or_default()));
    let template = match generics {
        [] => String::new(),
        _ => format!("template <{}> ", consts.collect::<Vec<_>>().join(", ")),
    };
    let head = format!("{template}static ATTN_FN {} {name}", spelled_or_auto(&f.ret, types));
    // a helper has no `self`, so it uses no parameter
    let used = &mut Used::default();
    let output = Output { types, file, used, report, prefix: "", exact };
    names::comments("///", &f.doc) + &function::whole(f, [&head, ""], output)
}

/// Emits a function of a `#[device_mod]`, without its doc comment; `before` stands before the result's type, `prefix`
/// before the language's functions.
pub(crate) fn module_function(
    f: &Function,
    before: &str,
    prefix: &str,
    types: &Types,
    file: &str,
    report: &mut Report,
) -> String {
    let head = format!("{before} {} {}", spelled_or_auto(&f.ret, types), f.name);
    function::whole(f, [&head, ""], Output { types, file, used: &mut Used::default(), report, prefix, exact: false })
}
