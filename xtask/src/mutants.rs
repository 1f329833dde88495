//! `cargo xtask mutants`: a test of the tests of emulated kernels. Each mutant is a mistake in a kernel, and at least
//! one of these tests has to fail with it. Without mutants they pass: run them before.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use xshell::{Shell, cmd};

use crate::paths::target_dir;

/// The mutants, one a line: a name, a file of attn-kernels/cuda, a text in it, and what takes its place.
const FILE: &str = "tests/mutants/kernels.jsonl";

/// Tests that run emulated kernels, in the order in which they are asked.
const TESTS: [&str; 10] = [
    "decode_emulated",
    "prefill_sm80_emulated",
    "prefill_sm90_emulated",
    "mixed_emulated",
    "cuda_cores",
    "ops_emulated",
    "sampling_emulated",
    "verify_emulated",
    "device_plan",
    "sanitized_emulated",
];

#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Only the mutants whose name contains this text.
    filter: Option<String>,
}

/// A mistake in a kernel.
struct Mutant {
    name: String,
    file: String,
    old: String,
    new: String,
}

/// Runs the tests with each mutant; fails if one survives.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let mutants = read(root)?;
    let filter = args.filter.as_deref().unwrap_or_default();
    let chosen: Vec<_> = mutants.iter().filter(|mutant| mutant.name.contains(filter)).collect();
    ensure!(!chosen.is_empty(), "no mutant is called `{filter}`");
    let folder = target_dir(root)?.join("mutants");
    fs::create_dir_all(&folder)?;
    let programs = build(sh, &folder)?;
    let patch = folder.join("mutant.json");
    let mut survivors = Vec::new();
    for mutant in &chosen {
        let start = Instant::now();
        fs::write(&patch, serde_json::json!({"old": mutant.old, "new": mutant.new}).to_string())?;
        let _patch = sh.push_env("ATTN_TEST_KERNEL_PATCH", &patch);
        let fails = |program: &&PathBuf| cmd!(sh, "{program}").quiet().ignore_stdout().ignore_stderr().run().is_err();
        let killer = programs.iter().position(|program| fails(&program));
        let how = killer.map_or_else(|| "SURVIVES".to_owned(), |at| format!("fails {}", TESTS[at]));
        println!("{}: {how} ({:.0} s)", mutant.name, start.elapsed().as_secs_f64());
        survivors.extend(killer.is_none().then_some(mutant.name.as_str()));
    }
    if survivors.is_empty() {
        println!("all of {} mutants fail a test", chosen.len());
        return Ok(());
    }
    bail!("{} of {} mutants survive: {}", survivors.len(), chosen.len(), survivors.join(", "))
}

/// Builds the programs of the tests. Copies are run, so that other builds do not disturb a run.
fn build(sh: &Shell, folder: &Path) -> Result<Vec<PathBuf>> {
    let tests: Vec<_> = TESTS.iter().flat_map(|test| ["--test", test]).collect();
    let format = "--message-format=json-render-diagnostics";
    let messages = cmd!(sh, "cargo test --quiet -p attn-tests {tests...} --no-run {format}").quiet().read()?;
    let messages: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let program = |test: &&str| {
        let built = messages.iter().find(|built| built["target"]["name"] == *test && built["executable"].is_string());
        let built = built.and_then(|built| built["executable"].as_str());
        let copy = folder.join(test);
        fs::copy(built.with_context(|| format!("cargo has not built {test}"))?, &copy)?;
        Ok(copy)
    };
    TESTS.iter().map(program).collect()
}

/// The mutants, each of which must be a change of one place in the templates.
fn read(root: &Path) -> Result<Vec<Mutant>> {
    let text = fs::read_to_string(root.join(FILE)).context(FILE)?;
    let mutants: Result<Vec<_>> = text.lines().map(parse).collect();
    let mutants = mutants?;
    let templates = root.join("attn-kernels/cuda");
    for Mutant { name, file, old, new } in &mutants {
        let template = fs::read_to_string(templates.join(file)).with_context(|| format!("{name}: {file}"))?;
        let count = template.matches(old.as_str()).count();
        ensure!(count == 1 && old != new, "{name}: {file} has its text {count} times; write it again");
    }
    Ok(mutants)
}

fn parse(line: &str) -> Result<Mutant> {
    let value: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
    let text = |key: &str| -> Result<String> {
        let text = value[key].as_str().with_context(|| format!("{key} of {line}"))?;
        Ok(text.to_owned())
    };
    Ok(Mutant { name: text("name")?, file: text("file")?, old: text("old")?, new: text("new")? })
}

#[cfg(test)]
mod tests {
    /// A change of a template that a mutant is about asks for another mutant.
    #[test]
    fn every_mutant_changes_one_place() {
        let mutants = super::read(&crate::paths::root()).expect("sound");
        assert!(mutants.len() >= 4, "{}", mutants.len());
    }
}
