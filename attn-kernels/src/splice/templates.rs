//! The embedded CUDA templates, the headers that are made of Rust, and the inlining of their includes.

use std::collections::HashSet;

use attn_core::{dtype::Dtype, headers::HEADERS};

use crate::kernel_traits::KernelTraits;
use crate::launch::HEADERS as STRUCTS;

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
    /// Which lines of a [`Conditional`] the text has.
    conditions: Conditions,
}

/// What lines of templates depend on, so that the text of other units, and with it their keys, does not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Conditions {
    /// Keys and values are rows of a KV format.
    formats: bool,
    /// `ATTN_OUTPUT`: outputs have another type than queries.
    output: bool,
    /// `ATTN_STORED_Q`: queries have another type in memory than kernels compute in.
    stored_queries: bool,
}

impl Conditions {
    /// The template that the unit has in place of one. Both have the same interface.
    fn twin_of(self, name: &str) -> &str {
        let twins = if self.formats { OF_FORMATS } else { &[] };
        twins.iter().find(|(dense, _)| *dense == name).map_or(name, |(_, twin)| twin)
    }

    /// Whether a condition holds, by its name in templates.
    fn holds(self, name: &str) -> Option<bool> {
        match name {
            "ATTN_OUTPUT" => Some(self.output),
            "ATTN_STORED_Q" => Some(self.stored_queries),
            _ => None,
        }
    }
}

/// A line of templates that the text does not have. `Begin` has whether the condition holds.
enum Conditional {
    Begin(bool),
    Else,
    End,
}

impl Conditional {
    fn of(line: &str, conditions: Conditions) -> Option<Self> {
        let named = |prefix| line.strip_prefix(prefix).and_then(|name| conditions.holds(name));
        if let Some(holds) = named("#ifdef ") {
            return Some(Conditional::Begin(holds));
        }
        named("#else  // ").map(|_| Conditional::Else).or_else(|| named("#endif  // ").map(|_| Conditional::End))
    }
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

/// The templates that a unit over rows of KV formats has beside [`LANGUAGE`].
const PACKED: [&str; 2] = ["lang/packed.cuh", "abi/packed_params.cuh"];

/// The templates that read dense rows of keys and values, and the twin of each that reads rows of KV formats.
const OF_FORMATS: &[(&str, &str)] = &[
    ("abi/launch_params.cuh", "abi/packed_launch_params.cuh"),
    ("decode/dense_rows.cuh", "decode/format_rows.cuh"),
    ("decode/dense_products.cuh", "decode/format_products.cuh"),
    ("preprocess/dense_rows.cuh", "preprocess/format_rows.cuh"),
    ("ops/transform.cuh", "ops/encode.cuh"),
];

/// Headers that few variants need, and the functions of each that generated text calls.
const ON_DEMAND: [(&str, &[&str]); 6] = [
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
    ("lang/hadamard.cuh", &["hadamard("]),
    ("lang/interval_parts.cuh", &["interval::part(", "interval::repeated("]),
    (BITS, &["bits::"]),
];

/// A header that units over rows of KV formats have.
const BITS: &str = "lang/bits.cuh";

/// The text of the headers that the text of a variant needs beside [`LANGUAGE`], and with `formats` beside [`PACKED`].
pub(super) fn headers_of(text: &str, formats: bool) -> Result<String, NoTemplate> {
    let mut inliner = Inliner::default();
    if formats {
        inliner.seen.insert(BITS);
    }
    let needed = ON_DEMAND.iter().filter(|(_, calls)| calls.iter().any(|call| text.contains(call)));
    for (header, _) in needed {
        // what the language includes is there already
        inliner.seen.extend(["lang/int_fn.cuh", "lang/types.cuh"]);
        inliner.include(header)?;
    }
    Ok(inliner.finish())
}

/// The loop over logits of prefill for long hooks; included before the mainloop, in place of the usual one.
pub(super) const ROLLED_SCORES: &str = "softmax/rolled_scores.cuh";

/// How rows of queries are loaded and rows of outputs stored, by their types.
pub(super) fn row_access(traits: &KernelTraits) -> [&'static str; 2] {
    let stored = if traits.common.dtypes.q.is_some() { "memory/query.cuh" } else { "memory/plain_query.cuh" };
    [stored, if traits.common.dtypes.o.is_some() { "memory/output.cuh" } else { "memory/plain_output.cuh" }]
}

impl Inliner {
    /// The text of a unit that begins with its name and these templates.
    pub(super) fn of_unit(name: &str, templates: &[&str]) -> Result<Self, NoTemplate> {
        Self::of_unit_with(name, "", templates, Conditions::default())
    }

    /// The text of an op's unit over rows of KV formats.
    pub(super) fn of_packed_unit(name: &str) -> Result<Self, NoTemplate> {
        Self::of_unit_with(name, "", &LANGUAGE, Conditions { formats: true, ..Conditions::default() })
    }

    /// The text of a kernel's unit. Over f32 tensors the approximate functions of hooks are the accurate ones.
    pub(super) fn of_kernel(name: &str, traits: &KernelTraits) -> Result<Self, NoTemplate> {
        let common = &traits.common;
        let accurate = if common.dtypes.qo == Dtype::F32 { "#define ATTN_ACCURATE\n" } else { "" };
        let formats = common.packed.is_some();
        let (output, stored_queries) = (common.dtypes.o.is_some(), common.dtypes.q.is_some());
        Self::of_unit_with(name, accurate, &LANGUAGE, Conditions { formats, output, stored_queries })
    }

    fn of_unit_with(
        name: &str,
        definitions: &str,
        templates: &[&str],
        conditions: Conditions,
    ) -> Result<Self, NoTemplate> {
        let text = format!("// attn-rs, {name}\n{definitions}");
        let mut unit = Inliner { text, conditions, ..Inliner::default() };
        let of_formats = if conditions.formats { &PACKED[..] } else { &[] };
        templates.iter().chain(of_formats).try_for_each(|template| unit.include(template))?;
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
        let name = self.conditions.twin_of(name);
        let (name, text, of_rust) = find(name).ok_or_else(|| NoTemplate { name: name.to_owned() })?;
        if !self.seen.insert(name) {
            return Ok(());
        }
        // whether the next line needs a `#line`; a header made of Rust has its own
        let mut directive = !of_rust;
        // whether the text has the next line, and whether lines before it are missing
        let (mut kept, mut cut) = (true, false);
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(conditional) = Conditional::of(line, self.conditions) {
                kept = match conditional {
                    Conditional::Begin(holds) => holds,
                    Conditional::Else => !kept,
                    Conditional::End => true,
                };
                cut = true;
                continue;
            }
            if !kept {
                continue;
            }
            if let Some(included) = included_file(line) {
                self.include(included)?;
                directive = !of_rust;
            } else if line.trim() == "#pragma once" {
                directive = true;
            } else if !(directive && line.trim().is_empty()) {
                if directive {
                    self.text.push_str(&format!("\n#line {number} \"cuda/{name}\"\n"));
                    directive = false;
                } else if cut {
                    // without an empty line, which would change the keys of kernels
                    self.text.push_str(&format!("#line {number} \"cuda/{name}\"\n"));
                }
                cut = false;
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

    /// The lines of a template that belong to units under some conditions.
    fn lines_for(text: &str, conditions: Conditions) -> Vec<&str> {
        // whether the condition of a block holds, and whether its lines so far are those of `#else`
        let (mut block, mut lines) = (None, Vec::new());
        for line in text.lines() {
            match Conditional::of(line, conditions) {
                Some(Conditional::Begin(holds)) => {
                    assert_eq!(block.replace((holds, false)), None, "blocks are not nested");
                }
                Some(Conditional::Else) => {
                    let (holds, is_else) = block.expect("a block has begun");
                    assert!(!is_else, "one `#else` a block");
                    block = Some((holds, true));
                }
                Some(Conditional::End) => assert!(block.take().is_some(), "a block has begun"),
                None if block.is_none_or(|(holds, is_else)| holds != is_else) => lines.push(line),
                None => {}
            }
        }
        assert_eq!(block, None, "each block ends");
        lines
    }

    #[test]
    fn conditional_lines_are_in_the_units_of_their_side_alone() {
        let mut conditional = 0;
        for (name, text) in FILES.iter().copied() {
            for on in 0..3 {
                let conditions = Conditions { formats: false, output: on == 1, stored_queries: on == 2 };
                let seen = FILES.iter().map(|file| file.0).filter(|other| *other != name);
                let of_rust = HEADERS.iter().map(|h| h.name).chain(structs().map(|(name, _)| name));
                let mut alone = Inliner { seen: seen.chain(of_rust).collect(), conditions, ..Inliner::default() };
                alone.include(name).expect("a template");
                let has = alone.finish();
                let has = has.lines().filter(|line| !line.is_empty() && !line.starts_with("#line"));
                let lines = lines_for(text, conditions);
                conditional += text.lines().count() - lines.len();
                let directive = |line: &str| line.starts_with("#include") || line == "#pragma once";
                let want = lines.into_iter().filter(|line| !line.trim().is_empty() && !directive(line));
                assert!(has.eq(want), "{name}");
            }
        }
        assert!(conditional > 0);
    }

    #[test]
    fn units_over_kv_formats_have_the_twin_of_a_template() {
        for (dense, twin) in OF_FORMATS {
            let text = |formats| {
                let mut unit =
                    Inliner { conditions: Conditions { formats, ..Conditions::default() }, ..Inliner::default() };
                unit.include(dense).expect("a template");
                unit.finish()
            };
            let of = |name: &str| format!("\"cuda/{name}\"");
            assert!(text(false).contains(&of(dense)) && !text(false).contains(&of(twin)), "{dense}");
            assert!(text(true).contains(&of(twin)) && !text(true).contains(&of(dense)), "{twin}");
        }
    }

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
