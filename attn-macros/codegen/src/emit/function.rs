//! A C++ function: its head, and a body that the caller writes.

use std::collections::HashMap;

use super::{
    cpp_type::spelled,
    logit_factor,
    writer::{CudaWriter, Used},
};
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
}

/// How a function of a `#[device_mod]` is written.
pub(crate) struct ModuleFunction<'a> {
    /// What stands before the result's type.
    pub(crate) before: &'a str,
    /// What stands before the language's functions.
    pub(crate) prefix: &'a str,
    /// The arguments that are passed by reference.
    pub(crate) by_reference: &'a [bool],
}

/// The function itself, with its doc comment.
pub(super) fn whole(f: &Function, head: [&str; 2], output: Output<'_>) -> String {
    let mut doc = String::new();
    for line in &f.doc {
        doc.push_str(names::comment(&format!("/// {line}")).as_str());
        doc.push('\n');
    }
    doc + &with_body(f, head, Arguments::All, output, |writer| writer.body(&f.body, &f.ret))
}

/// A function of a `#[device_mod]`, without its doc comment.
pub(super) fn of_module(
    f: &Function,
    of: &ModuleFunction<'_>,
    types: &Types,
    file: &str,
    report: &mut Report,
) -> String {
    let args = f.args.iter().zip(of.by_reference).map(|((local, ty), by_reference)| {
        let ty = spelled(ty, types).unwrap_or_else(|| "auto".into());
        let ty = if *by_reference { format!("const {ty}&") } else { ty };
        local.map_or_else(|| ty.clone(), |local| format!("{ty} {}", f.locals[local].name))
    });
    let args: Vec<String> = args.collect();
    let ret = spelled(&f.ret, types).unwrap_or_else(|| "auto".into());
    let head = format!("{} {ret} {}({}) {{\n", of.before, f.name, args.join(", "));
    let used = &mut Used::default();
    let mut out = format!("#line {} {}\n{head}", f.span.start().line.max(1), names::file_literal(file));
    let mut writer = writer(f, Output { types, file, used, report, prefix: of.prefix });
    writer.indent = 1;
    writer.body(&f.body, &f.ret);
    out.push_str(&writer.out);
    out.push_str("}\n");
    out
}

/// The value of a function without arguments and statements.
pub(super) fn value(f: &Function, prefix: &str, types: &Types, report: &mut Report) -> String {
    let used = &mut Used::default();
    let mut writer = writer(f, Output { types, file: "", used, report, prefix });
    f.body.tail.as_deref().map(|value| writer.value(value)).unwrap_or_default()
}

/// A function derived from `f`, with its locals and its arguments. Its uses and errors are not recorded: they are those
/// of `f`.
pub(super) fn derived(
    f: &Function,
    head: [&str; 2],
    arguments: Arguments,
    (types, file): (&Types, &str),
    body: impl FnOnce(&mut CudaWriter<'_>),
) -> String {
    let (used, report) = (&mut Used::default(), &mut Report::default());
    with_body(f, head, arguments, Output { types, file, used, report, prefix: "" }, body)
}

fn with_body(
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
        .map(|(local, ty)| {
            let ty = spelled(ty, types).unwrap_or_else(|| "auto".into());
            match local {
                Some(local) if Some(*local) == logit => format!("Logit {}", f.locals[*local].name),
                Some(local) => format!("{ty} {}", f.locals[*local].name),
                None => ty,
            }
        })
        .collect();
    let mut out = format!("#line {} {}\n", f.span.start().line.max(1), names::file_literal(file));
    out.push_str(&format!("{head}({}){tail} {{\n", args.join(", ")));
    let mut writer = CudaWriter { out, indent: 1, logit, ..writer(f, output) };
    body(&mut writer);
    writer.out.push_str("}\n");
    writer.out
}

/// A writer that has written nothing.
fn writer<'a>(f: &'a Function, output: Output<'a>) -> CudaWriter<'a> {
    let Output { types, used, report, prefix, .. } = output;
    CudaWriter {
        types,
        function: f,
        report,
        out: String::new(),
        indent: 0,
        intervals: HashMap::new(),
        aliases: HashMap::new(),
        params: HashMap::new(),
        logit: None,
        prefix,
        used,
    }
}
