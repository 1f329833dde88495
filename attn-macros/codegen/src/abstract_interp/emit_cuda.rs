//! Emits a normal form as CUDA over `lang/interval.cuh`.

use std::fmt::Write as _;

use super::normal_form::{Id, IntTy, Node, NormalForm, is_uniform_coordinate};
use crate::names;

/// `Tristate mask_over(const Tile& at) const`.
#[must_use]
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
#[must_use]
pub(super) fn helper(form: &NormalForm, name: &str, args: usize) -> String {
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
    let uses = form.uses();
    let mut texts: Vec<String> = Vec::new();
    for (id, node) in form.nodes.iter().enumerate() {
        if uses[id] == 0 {
            texts.push(String::new());
            continue;
        }
        let text = one(node, &texts);
        let name = match node {
            Node::Arg(_) | Node::Int(..) | Node::Variant { .. } | Node::LeastI32 | Node::Bool(_) | Node::Any => None,
            Node::Coordinate(word) => Some(word.clone()),
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
        _ => return None,
    })
}

fn one(node: &Node, texts: &[String]) -> String {
    let list = |ids: &[Id]| ids.iter().map(|&id| texts[id].as_str()).collect::<Vec<_>>().join(", ");
    if let Some(value) = uniform(node) {
        return format!("interval::of({value})");
    }
    match node {
        Node::Coordinate(word) if is_uniform_coordinate(word) => format!("interval::of(at.{word})"),
        Node::Coordinate(word) => format!("interval::coordinate(at.{word}_min, at.{word}_max)"),
        Node::Arg(i) => format!("a{i}"),
        Node::Element(name, ids) => {
            let member = names::param(name);
            let indices: String = ids.iter().map(|&id| format!(", {}", texts[id])).collect();
            format!("interval_of({member}, {member}range_{indices})")
        }
        Node::Helper(name, ids) => format!("{}({})", over(name), list(ids)),
        Node::Op(name, ids) => format!("interval::{name}({})", list(ids)),
        _ => "interval::Any{}".to_owned(),
    }
}
