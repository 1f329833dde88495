//! Emits a normal form as CUDA over `lang/interval.cuh`.

use std::fmt::Write as _;

use super::interval_fn::IntervalFn as F;
use super::normal_form::{Id, IntTy, Loop, Node, NormalForm, OTHERS, is_uniform_coordinate};
use crate::names;

/// `Tristate mask_over(const Tile& at) const`.
pub(super) fn mask_over(form: &NormalForm) -> String {
    let mut text = String::from("ATTN_FN Tristate mask_over(const Tile& at) const {\n");
    let value = parts(form, &mut text);
    let _ = write!(text, "  return interval::tristate({value});\n}}\n");
    text
}

/// Statements that set the bounds of a coordinate of `to`, from those of `at`.
pub(super) fn set_coordinate(form: &NormalForm, word: &str) -> String {
    let mut text = String::from("  {\n");
    let mut lets = String::new();
    let value = parts(form, &mut lets);
    lets.lines().for_each(|line| {
        let _ = writeln!(text, "  {line}");
    });
    let _ = write!(text, "    interval::set_coordinate(to.{word}_min, to.{word}_max, {value});\n  }}\n");
    text
}

/// A helper over abstract values, as a static member function.
pub(super) fn helper(form: &NormalForm, name: &str) -> String {
    let args = form.compound.len();
    let types: Vec<String> = (0..args).map(|i| format!("class A{i}")).collect();
    let params: Vec<String> = (0..args).map(|i| format!("A{i} a{i}")).collect();
    let template = if args == 0 { String::new() } else { format!("template <{}> ", types.join(", ")) };
    let mut text = format!("{template}static ATTN_FN auto {}({}) {{\n", over(name), params.join(", "));
    let value = parts(form, &mut text);
    let _ = write!(text, "  return {value};\n}}\n");
    text
}

/// The name of a helper over abstract values.
fn over(name: &str) -> String {
    format!("{name}_over")
}

/// Writes a variable for each node used more than once, and returns the result's expression.
fn parts(form: &NormalForm, out: &mut String) -> String {
    let (uses, texts) = (form.uses(), vec![String::new(); form.nodes.len()]);
    let mut writer = Writer { form, far: form.far(&uses), uses, inside: form.inside(), texts };
    writer.step(None, "  ", out);
    writer.texts.swap_remove(form.result)
}

struct Writer<'a> {
    form: &'a NormalForm,
    uses: Vec<usize>,
    far: Vec<bool>,
    inside: Vec<Option<usize>>,
    texts: Vec<String>,
}

impl Writer<'_> {
    /// Writes the nodes that are computed at a step: in a step of a loop, or in none.
    fn step(&mut self, step: Option<usize>, indent: &str, out: &mut String) {
        for id in 0..self.form.nodes.len() {
            if self.uses[id] == 0 || self.inside[id] != step {
                continue;
            }
            let node = &self.form.nodes[id];
            let (text, name) = match node {
                Node::Arg(_) | Node::Int(..) | Node::Variant { .. } | Node::LeastI32 | Node::Bool(_) | Node::Any => {
                    (one(node, &self.texts), None)
                }
                Node::Coordinate(word) => (one(node, &self.texts), Some(word.clone())),
                Node::Many(names, ids) => {
                    self.aggregate(id, names, ids, indent, out);
                    continue;
                }
                Node::Loop(it) => {
                    self.repeated(id, it, indent, out);
                    continue;
                }
                // a type may be that of an expression, which must not have a lambda then
                Node::Part(..) => (one(node, &self.texts), Some(format!("v{id}"))),
                _ => (one(node, &self.texts), (self.uses[id] > 1 || self.far[id]).then(|| format!("v{id}"))),
            };
            self.texts[id] = match name {
                Some(name) => {
                    let _ = writeln!(out, "{indent}const auto {name} = {text};");
                    name
                }
                None => text,
            };
        }
    }

    /// A struct of the parts.
    fn aggregate(&mut self, id: Id, names: &[String], ids: &[Id], indent: &str, out: &mut String) {
        let of = |id: Id| format!("decltype({})", self.texts[id]);
        let base = ids.first().filter(|_| names.first().is_some_and(|name| name == OTHERS));
        let fields = names.iter().zip(ids).skip(usize::from(base.is_some()));
        let members: Vec<String> = fields.map(|(name, &part)| format!("{} {name};", of(part))).collect();
        let values = ids.iter().map(|&part| self.texts[part].as_str()).collect::<Vec<_>>().join(", ");
        let base = base.map(|&id| format!(" : {}", of(id))).unwrap_or_default();
        let _ = writeln!(out, "{indent}struct P{id}{base} {{ {} }};", members.join(" "));
        let _ = writeln!(out, "{indent}const P{id} v{id} = {{{values}}};");
        self.texts[id] = format!("v{id}");
    }

    /// A loop: a struct of what it changes, and a function that makes a step.
    fn repeated(&mut self, id: Id, it: &Loop, indent: &str, out: &mut String) {
        let mut body = String::new();
        let inner = format!("{indent}  ");
        self.step(Some(it.number), &inner, &mut body);
        let typed = |ids: &[Id], texts: &[String]| {
            let typed = it.types.iter().zip(ids).map(|(ty, &id)| format!("interval::{}({})", typed(*ty), texts[id]));
            typed.collect::<Vec<_>>().join(", ")
        };
        let (before, after) = (typed(it.before(), &self.texts), typed(it.after(), &self.texts));
        let n = it.number;
        let all = |member: &dyn Fn(usize) -> String, between: &str| {
            (0..it.types.len()).map(member).collect::<Vec<_>>().join(between)
        };
        let members = all(&|k| format!("interval::{} s{k};", struct_of(it.types[k])), " ");
        let joined = all(&|k| format!("interval::select(Tristate::Unknown, s{k}, b.s{k})"), ", ");
        let same = all(&|k| format!("interval::same(s{k}, b.s{k})"), " && ");
        let same = if same.is_empty() { "true" } else { &same };
        let widened = all(&|k| format!("interval::same(s{k}, b.s{k}) ? s{k} : interval::unknown(s{k})"), ", ");
        let unknown = all(&|k| format!("interval::unknown(s{k})"), ", ");
        let [from, to] = [it.ids[0], it.ids[1]].map(|id| self.texts[id].clone());
        let inclusive = it.inclusive;
        let _ = write!(
            out,
            "{indent}struct S{n} {{\n{inner}{members}\n\
             {inner}ATTN_FN S{n} joined(const S{n}& b) const {{ return {{{joined}}}; }}\n\
             {inner}ATTN_FN bool same(const S{n}& b) const {{ return {same}; }}\n\
             {inner}ATTN_FN S{n} widened(const S{n}& b) const {{ return {{{widened}}}; }}\n\
             {inner}ATTN_FN S{n} unknown() const {{ return {{{unknown}}}; }}\n{indent}}};\n\
             {indent}const auto v{id} = interval::repeated({from}, {to}, {inclusive}, S{n}{{{before}}}, \
             [&](const auto& i{n}, const S{n}& s{n}) {{\n{body}{inner}return S{n}{{{after}}};\n{indent}}});\n"
        );
        self.texts[id] = format!("v{id}");
    }
}

/// The function that gives a value of a loop its type.
fn typed(ty: F) -> &'static str {
    if ty == F::Truth { "tristate" } else { ty.name() }
}

/// The type of a value of a loop.
fn struct_of(ty: F) -> &'static str {
    match ty {
        F::CastI32 => "Interval<int>",
        F::CastU32 => "Interval<u32>",
        F::CastU8 => "Interval<u8>",
        _ => "Truth",
    }
}

/// The C++ of a value that is the same for all logits, unless it is made of other nodes.
pub(super) fn uniform(node: &Node) -> Option<String> {
    Some(match node {
        Node::Param(name) => names::param(name),
        Node::Const(name) => name.clone(),
        Node::Variant { ty, name, .. } => format!("{ty}::{name}"),
        Node::Int(n, None | Some(IntTy::I32)) => n.to_string(),
        Node::Int(n, Some(IntTy::U32)) => format!("{n}u"),
        Node::Int(n, Some(IntTy::U8)) => format!("u8({n})"),
        Node::LeastI32 => "I32_MIN".to_owned(),
        Node::Bool(b) => b.to_string(),
        // `row` of masks of one interval of keys does not follow 64 bits
        _ => return None,
    })
}

fn one(node: &Node, texts: &[String]) -> String {
    let list = |ids: &[Id]| ids.iter().map(|&id| texts[id].as_str()).collect::<Vec<_>>().join(", ");
    if let Some(value) = uniform(node) {
        return format!("interval::of({value})");
    }
    match node {
        Node::WideConst(name) => format!("interval::wide({name})"),
        Node::Int(n, Some(IntTy::U64)) => format!("interval::wide({n}ull)"),
        Node::Int(n, Some(IntTy::I64)) => format!("interval::wide({n}ll)"),
        Node::Coordinate(word) if is_uniform_coordinate(word) => format!("interval::of(at.{word})"),
        Node::Coordinate(word) => format!("interval::coordinate(at.{word}_min, at.{word}_max)"),
        Node::Arg(i) => format!("a{i}"),
        Node::Element(name, ids) => {
            let member = names::param(name);
            let indices: String = ids.iter().map(|&id| format!(", {}", texts[id])).collect();
            format!("interval_of({member}, {member}range_{indices})")
        }
        Node::CoordinateOf(i, word) if is_uniform_coordinate(word) => format!("interval::of(a{i}.{word})"),
        Node::CoordinateOf(i, word) => format!("interval::coordinate(a{i}.{word}_min, a{i}.{word}_max)"),
        Node::Tile => "at".to_owned(),
        Node::Part(id, name) => {
            let of = &texts[*id];
            format!("interval::part({of}, [](const auto& of) -> decltype(of.{name}) {{ return of.{name}; }})")
        }
        Node::LoopVar(n) => format!("i{n}"),
        Node::LoopState(n, k) => format!("s{n}.s{k}"),
        Node::LoopOut(id, k) => format!("{}.s{k}", texts[*id]),
        Node::Helper(name, ids) | Node::Call(name, ids) => format!("{}({})", over(name), list(ids)),
        Node::Op(function, ids) => format!("interval::{}({})", function.name(), list(ids)),
        _ => "interval::Any{}".to_owned(),
    }
}
