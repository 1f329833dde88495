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
    with_body(f, head, arguments, Output { types, file, used, report }, body)
}

fn with_body(
    f: &Function,
    [head, tail]: [&str; 2],
    arguments: Arguments,
    output: Output<'_>,
    body: impl FnOnce(&mut CudaWriter<'_>),
) -> String {
    let Output { types, file, used, report } = output;
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
    let mut writer = CudaWriter {
        types,
        function: f,
        report,
        out,
        indent: 1,
        intervals: HashMap::new(),
        aliases: HashMap::new(),
        params: HashMap::new(),
        logit,
        used,
    };
    body(&mut writer);
    writer.out.push_str("}\n");
    writer.out
}
