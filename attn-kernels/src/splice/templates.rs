//! The embedded CUDA templates, the headers that are made of Rust, and the inlining of their includes.

use std::collections::HashSet;

use attn_core::{dtype::Dtype, headers::HEADERS};

use crate::{kernel_traits::KernelTraits, launch::HEADERS as STRUCTS};

/// Every file below `cuda/`: path and text.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/templates.rs"));

/// A template's name and text, and whether it is made of Rust.
fn find(name: &str) -> Option<(&'static str, &'static str, bool)> {
    let file = FILES.iter().find(|(n, _)| *n == name).map(|&(name, text)| (name, text, false));
    let of_rust = || HEADERS.iter().map(|h| (h.name, h.text)).chain(structs()).find(|(n, _)| *n == name);
    file.or_else(|| of_rust().map(|(name, text)| (name, text, true)))
}

/// The headers of structs.
fn structs() -> impl Iterator<Item = (&'static str, &'static str)> {
    STRUCTS.iter().map(|(name, text)| (*name, text.as_str()))
}

/// Templates and all that they include, each once, in one text.
///
/// # Errors
/// There is no template of that name.
pub fn inlined(names: &[&str]) -> Result<String, NoTemplate> {
    let mut inliner = Inliner::default();
    names.iter().try_for_each(|name| inliner.include(name))?;
    Ok(inliner.finish())
}

/// Inlines templates into one text: each file once, where it is first included.
#[derive(Default)]
pub(super) struct Inliner {
    seen: HashSet<&'static str>,
    text: String,
}

/// A template includes a file that does not exist: a mistake in the templates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no template `{name}`")]
pub struct NoTemplate {
    /// The file.
    pub name: String,
}

/// The templates that a unit with a variant begins with.
pub(super) const LANGUAGE: [&str; 3] = ["arch/element.cuh", "lang/lang.cuh", "abi/kernel_params.cuh"];

/// Headers that few variants need, and the functions of each that generated text calls.
const ON_DEMAND: [(&str, &[&str]); 4] = [
    ("lang/float_more.cuh", &["sinh(", "cosh(", "asin(", "acos(", "atan(", "atan2(", "hypot(", "cbrt(", "erf("]),
    (
        "lang/interval_wide.cuh",
        &[
            "interval::wide(",
            "interval::cast_u64(",
            "interval::cast_i64(",
            "interval::clear_lowest(",
            "interval::eq_cell",
        ],
    ),
    ("lang/called_row.cuh", &["CalledRow<"]),
    ("lang/interval_parts.cuh", &["interval::part(", "interval::repeated("]),
];

/// The text of the headers that the text of a variant needs beside [`LANGUAGE`].
pub(super) fn headers_of(text: &str) -> Result<String, NoTemplate> {
    let mut inliner = Inliner::default();
    let needed = ON_DEMAND.iter().filter(|(_, calls)| calls.iter().any(|call| text.contains(call)));
    for (header, _) in needed {
        // what the language includes is there already
        inliner.seen.insert("lang/int_fn.cuh");
        inliner.include(header)?;
    }
    Ok(inliner.finish())
}

/// The loop over logits of prefill for long hooks; included before the mainloop, in place of the usual one.
pub(super) const ROLLED_SCORES: &str = "softmax/rolled_scores.cuh";

/// The mainloop of the workers of a kernel.
pub(super) fn worker_mainloop(traits: &KernelTraits) -> &'static str {
    if traits.cuda_cores { "cuda_cores/mainloop.cuh" } else { "decode/swap_ab_mma.cuh" }
}

impl Inliner {
    /// The text of a unit that begins with its name and these templates.
    pub(super) fn of_unit(name: &str, templates: &[&str]) -> Result<Self, NoTemplate> {
        Self::of_unit_with(name, "", templates)
    }

    /// The text of a kernel's unit. Over f32 tensors the approximate functions of hooks are the accurate ones.
    pub(super) fn of_kernel(name: &str, traits: &KernelTraits) -> Result<Self, NoTemplate> {
        let accurate = if traits.dtypes.qo == Dtype::F32 { "#define ATTN_ACCURATE\n" } else { "" };
        Self::of_unit_with(name, accurate, &LANGUAGE)
    }

    fn of_unit_with(name: &str, definitions: &str, templates: &[&str]) -> Result<Self, NoTemplate> {
        let mut unit = Inliner { text: format!("// attn-rs, {name}\n{definitions}"), ..Inliner::default() };
        templates.iter().try_for_each(|template| unit.include(template))?;
        Ok(unit)
    }

    /// Appends text that is no template.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Appends a template and its includes, each unless the text already has it. `#line` directives make compilers name
    /// the template's file in messages.
    pub(super) fn include(&mut self, name: &str) -> Result<(), NoTemplate> {
        let (name, text, of_rust) = find(name).ok_or_else(|| NoTemplate { name: name.to_owned() })?;
        if !self.seen.insert(name) {
            return Ok(());
        }
        // whether the next line needs a `#line`; a header made of Rust has its own
        let mut directive = !of_rust;
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(included) = included_file(line) {
                self.include(included)?;
                directive = !of_rust;
            } else if line.trim() == "#pragma once" {
                directive = true;
            } else if !(directive && line.trim().is_empty()) {
                if directive {
                    self.text.push_str(&format!("\n#line {number} \"cuda/{name}\"\n"));
                    directive = false;
                }
                self.text.push_str(line);
                self.text.push('\n');
            }
        }
        Ok(())
    }

    /// Calls `include` in a scope: files that it includes count as not included afterwards, so a later part includes
    /// them again.
    pub(super) fn scoped<T>(&mut self, include: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.seen.clone();
        let done = include(self);
        self.seen = before;
        done
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// `x.cuh` of `#include "x.cuh"`.
fn included_file(line: &str) -> Option<&str> {
    line.trim().strip_prefix("#include")?.trim().strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_template_is_inlined_once_without_include_directives() {
        let mut inliner = Inliner::default();
        let of_rust = HEADERS.iter().map(|h| (h.name, h.text)).chain(structs());
        for (name, _) in FILES.iter().copied().chain(of_rust) {
            inliner.include(name).expect("every include is a template");
        }
        let text = inliner.finish();
        assert!(!text.contains("#include"), "no header of CUDA or C++");
        assert_eq!(text.matches("struct KernelParams {").count(), 1);
        assert!(text.contains("\"cuda/abi/kernel_params.cuh\""));
        assert_eq!(Inliner::default().include("nowhere.cuh"), Err(NoTemplate { name: "nowhere.cuh".into() }));
    }
}
