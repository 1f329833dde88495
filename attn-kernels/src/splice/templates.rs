//! The embedded CUDA templates, the headers that are made of Rust, and the inlining of their includes.

use std::collections::HashSet;

use attn_core::{dtype::Dtype, headers::HEADERS};

use super::reachable::reachable;
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
    /// Whether keys and values are rows of a KV format.
    formats: bool,
    /// Whether keys come from a list.
    pub(super) lists: bool,
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
    ("prefill/sm90/latent/dense_rows.cuh", "prefill/sm90/latent/format_rows.cuh"),
    ("preprocess/dense_rows.cuh", "preprocess/format_rows.cuh"),
    ("ops/transform.cuh", "ops/encode.cuh"),
];

/// The same for keys of a list.
const OF_LISTS: &[(&str, &str)] = &[("prefill/sm90/dense_keys.cuh", "prefill/sm90/listed_keys.cuh")];

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
        Self::of_unit_with(name, "", templates, false)
    }

    /// The text of an op's unit over rows of KV formats.
    pub(super) fn of_packed_unit(name: &str) -> Result<Self, NoTemplate> {
        Self::of_unit_with(name, "", &LANGUAGE, true)
    }

    /// The text of a kernel's unit. Over f32 tensors the approximate functions of hooks are the accurate ones.
    pub(super) fn of_kernel(name: &str, traits: &KernelTraits) -> Result<Self, NoTemplate> {
        let common = &traits.common;
        let accurate = if common.dtypes.qo == Dtype::F32 { "#define ATTN_ACCURATE\n" } else { "" };
        Self::of_unit_with(name, accurate, &LANGUAGE, common.packed.is_some())
    }

    fn of_unit_with(name: &str, definitions: &str, templates: &[&str], formats: bool) -> Result<Self, NoTemplate> {
        let text = format!("// attn-rs, {name}\n{definitions}");
        let mut unit = Inliner { text, formats, ..Inliner::default() };
        let of_formats = if formats { &PACKED[..] } else { &[] };
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
        let twins = |has: bool, of| if has { of } else { &[][..] };
        let mut twins = twins(self.formats, OF_FORMATS).iter().chain(twins(self.lists, OF_LISTS));
        let name = twins.find(|(dense, _)| *dense == name).map_or(name, |(_, twin)| twin);
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

    /// The text, of which a unit has what its kernels use.
    pub(super) fn finish(self) -> String {
        reachable(&self.text)
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
    fn units_over_kv_formats_or_lists_have_the_twin_of_a_template() {
        for (dense, twin) in OF_FORMATS.iter().chain(OF_LISTS) {
            let text = |other| {
                let mut unit = Inliner { formats: other, lists: other, ..Inliner::default() };
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
