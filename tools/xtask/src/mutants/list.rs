//! The lists of mutants, and what a test program says of one.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// The lists of mutants, one a line: a name, a file, a text in it, and what takes its place.
pub(super) const LISTS: [&str; 2] = ["tests/data/mutants/by_a_stranger.jsonl", "tests/data/mutants/kernels.jsonl"];
/// Mutants of this folder are of kernels, whose text is replaced at run time.
pub(super) const KERNELS: &str = "attn-kernels/cuda/";

/// A mistake in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    /// The list that it is in.
    #[serde(skip)]
    pub(super) list: &'static str,
    pub(super) name: String,
    /// The path from the root of the repository.
    pub(super) file: String,
    pub(super) old: String,
    pub(super) new: String,
    /// How a legal call goes wrong.
    #[serde(default, rename = "why")]
    _why: Option<String>,
}

/// The test that fails with a mutant: its program, and its name where that is known.
pub(super) struct Killer {
    pub(super) program: String,
    pub(super) test: Option<String>,
}

impl Mutant {
    pub(super) fn is_of_kernels(&self) -> bool {
        self.file.starts_with(KERNELS)
    }
}

impl Killer {
    pub(super) fn title(&self) -> String {
        let Killer { program, test } = self;
        test.as_ref().map_or_else(|| program.clone(), |test| format!("{program} {test}"))
    }
}

/// The test of which a line of a test program says that it failed.
pub(super) fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// The mutants, each of which must be a change of one place.
pub(super) fn read(root: &Path) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for list in LISTS {
        let text = fs::read_to_string(root.join(list)).context(list)?;
        for line in text.lines() {
            let mutant = Mutant { list, ..serde_json::from_str(line).with_context(|| format!("{list}: {line}"))? };
            let Mutant { name, file, old, new, .. } = &mutant;
            let source = fs::read_to_string(root.join(file)).with_context(|| format!("{name}: {file}"))?;
            let count = source.matches(old.as_str()).count();
            ensure!(count == 1 && old != new, "{name}: {file} has its text {count} times; write it again");
            mutants.push(mutant);
        }
    }
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use crate::paths::root;

    /// A change of a place that a mutant is about asks for another mutant.
    #[test]
    fn every_mutant_changes_one_place() {
        let mutants = super::read(&root()).expect("sound");
        let of_a_stranger = mutants.iter().filter(|mutant| mutant.list == super::LISTS[0]);
        assert_eq!(of_a_stranger.clone().count(), 40);
        assert!(of_a_stranger.filter(|mutant| mutant.is_of_kernels()).count() >= 25);
    }
}
