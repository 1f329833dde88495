//! C++ text of a function.
//!
//! Types that are not seen are left to C++ (`auto`, overloads of lang/lang.cuh). Integer arithmetic is written with plain
//! operators where it provably cannot overflow (`range`), else with functions that wrap as Rust does:
//! NVRTC has no -fwrapv, and signed overflow would be undefined.

mod array;
mod bias;
mod bias_row;
mod bound;
mod divide;
mod factor;
mod leave;
mod operator;
mod range;
mod slope;
mod stmt;
mod value;

pub(crate) use bias::bias;
pub(crate) use bias_row::bias_row;
pub(crate) use bound::bound;
pub(crate) use slope::slope;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    ir::{Expr, Function, Kind, LocalId},
    names,
    report::{self, Report},
    types::{Ty, Types},
};

/// Writes one function.
pub(crate) struct Writer<'a> {
    types: &'a Types,
    function: &'a Function,
    report: &'a mut Report,
    out: String,
    indent: usize,
    /// Where locals lie that never change.
    ranges: HashMap<LocalId, range::Range>,
    /// Locals that are only another name.
    aliases: HashMap<LocalId, String>,
    /// Locals that never change and hold a scalar parameter.
    params: HashMap<LocalId, String>,
    /// The logit that a transform is shown, which is still to be scaled ([`factor`]).
    logit: Option<LocalId>,
    used: &'a mut Used,
}

/// What the texts of an item use beside its parameters.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// Every parameter.
    pub(crate) params: BTreeSet<String>,
    /// Parameters that integers are divided by, and where first.
    pub(crate) divisors: BTreeMap<String, report::Range>,
    /// Parameters that are compared with something, and may so be kept from being 0.
    pub(crate) compared: BTreeSet<String>,
    /// Something is stored.
    pub(crate) stores: bool,
    /// The number of a key's block in its list is asked for.
    pub(crate) slots: bool,
}

/// A hook as a const member function.
pub(crate) fn hook(f: &Function, types: &Types, file: &str, used: &mut Used, report: &mut Report) -> String {
    let template = if f.args.iter().any(|(_, ty)| *ty == Ty::Row) { "template <class R> " } else { "" };
    let head = format!("{template}ATTN_FN {} {}", spelled(&f.ret, types).unwrap_or_else(|| "auto".into()), f.name);
    function(f, [&head, " const"], types, file, used, report)
}

/// A helper as a static member function.
pub(crate) fn helper(
    f: &Function,
    generics: &[(String, String, Ty)],
    types: &Types,
    file: &str,
    report: &mut Report,
) -> String {
    let name = names::helper(&f.name);
    let consts = generics.iter().map(|(_, name, ty)| format!("{} {name}", spelled(ty, types).unwrap_or_default()));
    let template = match generics {
        [] => String::new(),
        _ => format!("template <{}> ", consts.collect::<Vec<_>>().join(", ")),
    };
    let head = format!("{template}static ATTN_FN {} {name}", spelled(&f.ret, types).unwrap_or_else(|| "auto".into()));
    // without `self` there is no parameter to use
    function(f, [&head, ""], types, file, &mut Used::default(), report)
}

fn function(f: &Function, head: [&str; 2], types: &Types, file: &str, used: &mut Used, report: &mut Report) -> String {
    function_of(f, head, types, file, used, report, None)
}

/// What is written of a function instead of its value.
#[derive(Clone, Copy)]
enum Derived<'f> {
    /// What it adds to its first argument, which is left out.
    Added(&'f bias::Added<'f>),
    /// How large it can be, whatever its arguments, which are left out.
    Bound(&'f bound::Floats<'f>),
}

/// A function, or what is derived of it.
fn function_of(
    f: &Function,
    [head, tail]: [&str; 2],
    types: &Types,
    file: &str,
    used: &mut Used,
    report: &mut Report,
    derived: Option<Derived<'_>>,
) -> String {
    let mut out = String::new();
    for line in f.doc.iter().filter(|_| derived.is_none()) {
        out.push_str(names::comment(&format!("/// {line}")).as_str());
        out.push('\n');
    }
    let logit = factor::logit_of(f);
    let left_out = match derived {
        None => 0,
        Some(Derived::Added(_)) => 1,
        Some(Derived::Bound(_)) => f.args.len(),
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
    out.push_str(&format!("#line {} {}\n", f.span.start().line.max(1), names::file_literal(file)));
    out.push_str(&format!("{head}({}){tail} {{\n", args.join(", ")));
    let mut writer = Writer {
        types,
        function: f,
        report,
        out,
        indent: 1,
        ranges: HashMap::new(),
        aliases: HashMap::new(),
        params: HashMap::new(),
        logit,
        used,
    };
    match derived {
        Some(Derived::Added(added)) => writer.added(&f.body, added),
        Some(Derived::Bound(floats)) => writer.bound(&f.body, floats),
        None => writer.body(&f.body, &f.ret),
    }
    let mut out = writer.out;
    out.push_str("}\n");
    out
}

/// The C++ type, where it is known.
pub(crate) fn spelled(ty: &Ty, types: &Types) -> Option<String> {
    Some(match types.settled(ty) {
        Ty::F32 => "float".into(),
        // an index of an array, which is shown to be small
        Ty::I32 | Ty::Usize => "int".into(),
        Ty::U32 => "u32".into(),
        Ty::U8 => "u8".into(),
        Ty::U64 => "u64".into(),
        Ty::Bool => "bool".into(),
        Ty::Unit => "void".into(),
        Ty::RowIndex => "RowIndex".into(),
        Ty::LogitIndex => "LogitIndex".into(),
        Ty::KvIndex => "KvIndex".into(),
        Ty::RowState => "RowState".into(),
        Ty::QueryTile => "QueryTile".into(),
        Ty::Row => "R&".into(),
        Ty::Device(name) => name,
        Ty::Tuple(items) if items == [Ty::F32, Ty::F32] => "Pair".into(),
        Ty::Tuple(items) => {
            let items: Option<Vec<String>> = items.iter().map(|t| spelled(t, types)).collect();
            let items = items?;
            format!("Tuple{}<{}>", items.len(), items.join(", "))
        }
        Ty::Array(elem, len) => format!("Array<{}, {len}>", spelled(&elem, types)?),
        Ty::Var(_) => return None,
    })
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn name(&self, local: LocalId) -> String {
        self.aliases.get(&local).cloned().unwrap_or_else(|| self.function.locals[local].name.clone())
    }

    /// Lets the subject of a `match` stand for its local, where it is as short and never changes.
    fn alias(&mut self, subject: &Expr, bound: LocalId) -> bool {
        match &subject.kind {
            Kind::Local(local) if *local == bound => true,
            Kind::Param(_) | Kind::Word(..) => {
                self.compares(subject);
                let text = self.value(subject);
                self.aliases.insert(bound, text);
                true
            }
            _ => false,
        }
    }

    fn settled(&self, ty: &Ty) -> Ty {
        self.types.settled(ty)
    }

    /// The C++ type of a local.
    fn declared(&self, local: LocalId) -> Option<String> {
        spelled(&self.function.locals[local].ty, self.types)
    }

    /// Text that is written aside, one level deeper.
    fn aside(&mut self, f: impl FnOnce(&mut Self)) -> String {
        let before = std::mem::take(&mut self.out);
        self.indent += 1;
        f(self);
        self.indent -= 1;
        std::mem::replace(&mut self.out, before)
    }
}
