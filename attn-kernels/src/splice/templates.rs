//! The embedded CUDA templates, and the inlining of their includes.

use std::collections::HashSet;

/// Every file below `cuda/`: path and text.
pub(super) const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/templates.rs"));

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

impl Inliner {
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
        let &(name, text) =
            FILES.iter().find(|(n, _)| *n == name).ok_or_else(|| NoTemplate { name: name.to_owned() })?;
        if !self.seen.insert(name) {
            return Ok(());
        }
        let mut directive = true; // whether the next line needs a `#line`
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(included) = included_file(line) {
                self.include(included)?;
                directive = true;
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
        for (name, _) in FILES {
            inliner.include(name).expect("every include is a template");
        }
        let text = inliner.finish();
        assert!(!text.contains("#include"), "no header of CUDA or C++");
        assert_eq!(text.matches("struct KernelParams {").count(), 1);
        assert!(text.contains("\"cuda/abi/kernel_params.cuh\""));
        assert_eq!(Inliner::default().include("nowhere.cuh"), Err(NoTemplate { name: "nowhere.cuh".into() }));
    }
}
