//! What catches each mutant: kept in a file, and shown in a table of the book.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use xshell::{Shell, cmd};

use super::list::{Killer, LISTS, Mutant};
use crate::report::between;

/// One object a line: the name of a mutant, what caught it (null: nothing did), and the commit.
const FILE: &str = "tests/data/mutants/results.jsonl";
/// The page with the table.
const PAGE: &str = "book/src/internals/mutants.md";

fn load(root: &Path) -> Result<BTreeMap<String, Value>> {
    let text = fs::read_to_string(root.join(FILE)).unwrap_or_default();
    let parse = |line: &str| {
        let value: Value = serde_json::from_str(line).with_context(|| format!("{FILE}: {line}"))?;
        let name = value["name"].as_str().with_context(|| format!("{FILE}: {line}"))?.to_owned();
        Ok((name, value))
    };
    text.lines().map(parse).collect()
}

/// Keeps the result of a mutant. An earlier one gives way.
pub(super) fn keep(sh: &Shell, root: &Path, mutant: &Mutant, killer: Option<&Killer>) -> Result<()> {
    let mut results = load(root)?;
    let commit = cmd!(sh, "git rev-parse --short HEAD").quiet().read()?;
    let result = json!({
        "name": mutant.name,
        "program": killer.map(|killer| &killer.program),
        "test": killer.and_then(|killer| killer.test.as_ref()),
        "commit": commit,
    });
    results.insert(mutant.name.clone(), result);
    let lines: Vec<String> = results.values().map(|result| format!("{result}\n")).collect();
    Ok(fs::write(root.join(FILE), lines.concat())?)
}

/// Writes the table of the book.
pub(super) fn write(root: &Path, mutants: &[Mutant]) -> Result<()> {
    let (path, text) = page(root, mutants)?;
    Ok(fs::write(path, text)?)
}

/// The page with the table of today's results for the mutants of the first list.
fn page(root: &Path, mutants: &[Mutant]) -> Result<(PathBuf, String)> {
    let (path, results) = (root.join(PAGE), load(root)?);
    let text = fs::read_to_string(&path).context(PAGE)?;
    let mutants: Vec<_> = mutants.iter().filter(|mutant| mutant.list == LISTS[0]).collect();
    Ok((path, between(&text, "mutants", &|| table(&mutants, &results))?))
}

fn table(mutants: &[&Mutant], results: &BTreeMap<String, Value>) -> Result<String> {
    let result = |mutant: &Mutant| results.get(&mutant.name).with_context(|| format!("{FILE}: no `{}`", mutant.name));
    let mut rows = String::new();
    let mut caught = 0;
    for mutant in mutants {
        let result = result(mutant)?;
        let (program, test) = (result["program"].as_str(), result["test"].as_str());
        caught += usize::from(program.is_some());
        let by = match (program, test) {
            (None, _) => "nothing".to_owned(),
            (Some(program), None) => format!("`{program}`"),
            (Some(program), Some(test)) => format!("`{program}`: `{test}`"),
        };
        let commit = result["commit"].as_str().with_context(|| format!("{FILE}: commit of {}", mutant.name))?;
        writeln!(rows, "| {} | `{}` | {by} | {commit} |", mutant.name, mutant.file)?;
    }
    let head = "| mutant | file | what catches it | commit |\n|---|---|---|---|";
    Ok(format!("{caught} of {} are caught.\n\n{head}\n{rows}", mutants.len()))
}

#[cfg(test)]
mod tests {
    use crate::paths::root;

    #[test]
    fn the_book_has_the_results() {
        let mutants = crate::mutants::list::read(&root()).expect("sound");
        let (path, text) = super::page(&root(), &mutants).expect("every mutant of the table has a result");
        let written = std::fs::read_to_string(path).expect("the page");
        assert_eq!(written, text, "run `cargo xtask mutants --write`");
    }
}
