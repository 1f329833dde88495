//! A form as CUDA over `lang/interval.cuh`.

use std::fmt::Write as _;

use super::{
    form::{Form, Id, IntTy, Node},
    rust::is_one,
    uses,
};
use crate::names;

/// `Tri mask_over(const Tile& at) const`.
#[must_use]
pub(super) fn mask_over(form: &Form) -> String {
    let mut text = String::from("ATTN_FN Tri mask_over(const Tile& at) const {\n");
    let value = parts(form, &mut text);
    let _ = write!(text, "  return range::tri({value});\n}}\n");
    text
}

/// Statements that set the bounds of a word of `to`, from those of `at`.
pub(super) fn set_word(form: &Form, word: &str) -> String {
    let mut text = String::from("  {\n");
    let mut lets = String::new();
    let value = parts(form, &mut lets);
    lets.lines().for_each(|line| {
        let _ = writeln!(text, "  {line}");
    });
    let _ = write!(text, "    range::set_word(to.{word}_min, to.{word}_max, {value});\n  }}\n");
    text
}

/// A helper over abstract values: a static member function.
#[must_use]
pub(super) fn helper(form: &Form, name: &str, args: usize) -> String {
    let types: Vec<String> = (0..args).map(|i| format!("class A{i}")).collect();
    let params: Vec<String> = (0..args).map(|i| format!("A{i} a{i}")).collect();
    let template = if args == 0 { String::new() } else { format!("template <{}> ", types.join(", ")) };
    let mut text = format!("{template}static ATTN_FN auto {}({}) {{\n", over(name), params.join(", "));
    let value = parts(form, &mut text);
    let _ = write!(text, "  return {value};\n}}\n");
    text
}

/// The abstract form of a helper.
fn over(name: &str) -> String {
    format!("{name}_over")
}

/// Writes what has a name, and gives the value.
fn parts(form: &Form, out: &mut String) -> String {
    let uses = uses(form);
    let mut texts: Vec<String> = Vec::new();
    for (id, node) in form.nodes.iter().enumerate() {
        if uses[id] == 0 {
            texts.push(String::new());
            continue;
        }
        let text = one(node, &texts);
        let name = match node {
            Node::Arg(_) | Node::Int(..) | Node::Variant { .. } | Node::LeastI32 | Node::Bool(_) | Node::Any => None,
            Node::Word(word) => Some(word.clone()),
            _ if uses[id] > 1 => Some(format!("v{id}")),
            _ => None,
        };
        match name {
            Some(name) => {
                let _ = writeln!(out, "  const auto {name} = {text};");
                texts.push(name);
            }
            None => texts.push(text),
        }
    }
    texts.swap_remove(form.result)
}

fn one(node: &Node, texts: &[String]) -> String {
    let list = |ids: &[Id]| ids.iter().map(|&id| texts[id].as_str()).collect::<Vec<_>>().join(", ");
    match node {
        Node::Word(word) if is_one(word) => format!("range::of(at.{word})"),
        Node::Word(word) => format!("range::word(at.{word}_min, at.{word}_max)"),
        Node::Arg(i) => format!("a{i}"),
        Node::Param(name) => format!("range::of({})", names::param(name)),
        Node::Const(name) => format!("range::of({name})"),
        Node::Variant { ty, name, .. } => format!("range::of({ty}::{name})"),
        Node::Int(n, None | Some(IntTy::I32)) => format!("range::of({n})"),
        Node::Int(n, Some(IntTy::U32)) => format!("range::of({n}u)"),
        Node::Int(n, Some(IntTy::U8)) => format!("range::of(u8({n}))"),
        Node::LeastI32 => "range::of(I32_MIN)".to_owned(),
        Node::Bool(b) => format!("range::of({b})"),
        Node::Any => "range::Any{}".to_owned(),
        Node::Element(name, ids) => {
            let member = names::param(name);
            let indices: String = ids.iter().map(|&id| format!(", {}", texts[id])).collect();
            format!("range_of({member}, {member}range_{indices})")
        }
        Node::Helper(name, ids) => format!("{}({})", over(name), list(ids)),
        Node::Op(name, ids) => format!("range::{name}({})", list(ids)),
    }
}
