//! A C++ function: its head, and a body that the caller writes.

use std::collections::HashMap;

use super::cpp_type::spelled_or_auto;
use super::interval::Intervals;
use super::logit_factor;
use super::writer::{CudaWriter, Used};
use crate::{ir::Function, names, report::Report, types::Types};

/// Which arguments a C++ function keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arguments {
    All,
    /// All but the first, which is the logit of a transform.
    AfterLogit,
    None,
}

/// The state that the functions of an item share during emission.
pub(super) struct Output<'a> {
    pub(super) types: &'a Types,
    pub(super) file: &'a str,
    pub(super) used: &'a mut Used,
    pub(super) report: &'a mut Report,
    pub(super) prefix: &'a str,
    pub(super) exact: bool,
}

/// The function itself, without its doc comment.
pub(super) fn whole(f: &Function, head: [&str; 2], output: Output<'_>) -> String {
    with_body(f, head, Arguments::All, output, |writer| writer.body(&f.body, &f.ret))
}

/// The value of a function without arguments and statements: of a constant of a `#[device_mod]`.
pub(crate) fn value(f: &Function, prefix: &str, types: &Types, report: &mut Report) -> String {
    let used = &mut Used::default();
    let mut writer = writer(f, Output { types, file: "", used, report, prefix, exact: false });
    f.body.tail.as_deref().map(|value| writer.value(value)).unwrap_or_default()
}

/// A member function derived from `f`, with its locals and its arguments. Its uses and errors are not recorded: they
/// are those of `f`.
pub(super) fn derived(
    f: &Function,
    head: &str,
    arguments: Arguments,
    (types, file): (&Types, &str),
    body: impl FnOnce(&mut CudaWriter<'_>),
) -> String {
    let (used, report) = (&mut Used::default(), &mut Report::default());
    let head = [&format!("ATTN_FN {head}"), " const"];
    with_body(f, head, arguments, Output { types, file, used, report, prefix: "", exact: false }, body)
}

pub(super) fn with_body(
    f: &Function,
    [head, tail]: [&str; 2],
    arguments: Arguments,
    output: Output<'_>,
    body: impl FnOnce(&mut CudaWriter<'_>),
) -> String {
    let (types, file) = (output.types, output.file);
    let logit = logit_factor::logit_of(f);
    let left_out = match arguments {
        Arguments::All => 0,
        Arguments::AfterLogit => 1,
        Arguments::None => f.args.len(),
    };
    let args: Vec<String> = f
        .args
        .iter()
        .skip(left_out)
        .map(|argument| {
            let ty = match argument.local {
                Some(local) if Some(local) == logit => "Logit".into(),
                _ => spelled_or_auto(&argument.ty, types),
            };
            let ty = if argument.by_reference { format!("const {ty}&") } else { ty };
            argument.local.map_or_else(|| ty.clone(), |local| format!("{ty} {}", f.locals[local].name))
        })
        .collect();
    let mut out = names::line_directive(f.span, file);
    out.push_str(&format!("{head}({}){tail} {{\n", args.join(", ")));
    let mut writer = CudaWriter { out, indent: 1, logit, ..writer(f, output) };
    body(&mut writer);
    writer.out.push_str("}\n");
    writer.out
}

/// A writer that has written nothing.
fn writer<'a>(f: &'a Function, output: Output<'a>) -> CudaWriter<'a> {
    let Output { types, used, report, prefix, exact, .. } = output;
    CudaWriter {
        types,
        function: f,
        report,
        out: String::new(),
        indent: 0,
        intervals: Intervals::new(types),
        aliases: HashMap::new(),
        params: HashMap::new(),
        logit: None,
        prefix,
        exact,
        used,
    }
}
