//! `cargo xtask mutants`: a test of the tests. Each mutant is a mistake in a kernel or in the Rust around it, and at
//! least one of the tests that CI runs has to fail with it. Without mutants they pass: run them before.

mod kernels;
mod results;
mod rust;

use std::{fs, path::Path, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use xshell::Shell;

/// The lists of mutants, one a line: a name, a file, a text in it, and what takes its place.
const LISTS: [&str; 2] = ["tests/mutants/by_a_stranger.jsonl", "tests/mutants/kernels.jsonl"];
/// Mutants of this folder are of kernels, whose text is replaced at run time.
const KERNELS: &str = "attn-kernels/cuda/";

#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Only the mutants whose name contains this text.
    filter: Option<String>,
    /// Only mutants of kernels, which need no Rust build.
    #[arg(long, conflicts_with = "rust")]
    kernels: bool,
    /// Only mutants of Rust.
    #[arg(long)]
    rust: bool,
    /// Keeps what catches each of them in tests/mutants/results.jsonl, and writes the table of the book.
    #[arg(long)]
    write: bool,
}

/// A mistake in a file.
struct Mutant {
    /// The list that it is in.
    list: &'static str,
    name: String,
    /// The path from the root of the repository.
    file: String,
    old: String,
    new: String,
}

/// The test that fails with a mutant: its program, and its name where that is known.
struct Killer {
    program: String,
    test: Option<String>,
}

/// Runs tests with each mutant; fails if one survives.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let mutants = read(root)?;
    let filter = args.filter.as_deref().unwrap_or_default();
    let kind = |mutant: &&Mutant| !(if mutant.is_of_kernels() { args.rust } else { args.kernels });
    let chosen: Vec<_> = mutants.iter().filter(|mutant| mutant.name.contains(filter)).filter(kind).collect();
    ensure!(!chosen.is_empty(), "no mutant is called `{filter}`");
    let (of_kernels, of_rust): (Vec<&Mutant>, _) = chosen.iter().partition(|mutant| mutant.is_of_kernels());
    let mut survivors = Vec::new();
    let mut judge = |mutant: &Mutant, killer: Option<Killer>, start: Instant| -> Result<()> {
        let how = killer.as_ref().map_or_else(|| "SURVIVES".to_owned(), |killer| format!("fails {}", killer.title()));
        println!("{}: {how} ({:.0} s)", mutant.name, start.elapsed().as_secs_f64());
        if killer.is_none() {
            survivors.push(mutant.name.clone());
        }
        if args.write { results::keep(sh, root, mutant, killer.as_ref()) } else { Ok(()) }
    };
    if !of_kernels.is_empty() {
        let programs = kernels::build(sh, root)?;
        for mutant in of_kernels {
            let start = Instant::now();
            judge(mutant, programs.killer(root, mutant)?, start)?;
        }
    }
    if !of_rust.is_empty() {
        let tree = rust::tree(sh, root)?;
        for mutant in of_rust {
            let start = Instant::now();
            judge(mutant, tree.killer(sh, mutant)?, start)?;
        }
    }
    if args.write {
        results::write(root, &mutants)?;
    }
    if survivors.is_empty() {
        println!("all of {} mutants fail a test", chosen.len());
        return Ok(());
    }
    bail!("{} of {} mutants survive: {}", survivors.len(), chosen.len(), survivors.join(", "))
}

impl Mutant {
    fn is_of_kernels(&self) -> bool {
        self.file.starts_with(KERNELS)
    }
}

impl Killer {
    fn title(&self) -> String {
        let Killer { program, test } = self;
        test.as_ref().map_or_else(|| program.clone(), |test| format!("{program} {test}"))
    }
}

/// The test of which a line of a test program says that it failed.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// The mutants, each of which must be a change of one place.
fn read(root: &Path) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for list in LISTS {
        let text = fs::read_to_string(root.join(list)).context(list)?;
        for line in text.lines() {
            let mutant = parse(list, line)?;
            let Mutant { name, file, old, new, .. } = &mutant;
            let source = fs::read_to_string(root.join(file)).with_context(|| format!("{name}: {file}"))?;
            let count = source.matches(old.as_str()).count();
            ensure!(count == 1 && old != new, "{name}: {file} has its text {count} times; write it again");
            mutants.push(mutant);
        }
    }
    Ok(mutants)
}

fn parse(list: &'static str, line: &str) -> Result<Mutant> {
    let value: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
    let text = |key: &str| -> Result<String> {
        let text = value[key].as_str().with_context(|| format!("{key} of {line}"))?;
        Ok(text.to_owned())
    };
    Ok(Mutant { list, name: text("name")?, file: text("file")?, old: text("old")?, new: text("new")? })
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
