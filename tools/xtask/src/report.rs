//! `cargo xtask bench-report`: results become the tables of README and the book, so that no figure is typed by hand.
//! The table of variants is made from the registry ([`variants`]).
//!
//! Tables stand between HTML comments in the pages of [`PAGES`]:
//! - `<!-- bench:begin -->` .. `<!-- bench:end -->`: a table for each section of a summary whose `about` has a `title`;
//! - `<!-- checks:begin -->` .. `<!-- checks:end -->`: a row for each section that `attn check` gave;
//! - `<!-- model:begin -->` .. `<!-- model:end -->`: the tables of the paper on a model ([`model`]);
//! - `<!-- front-page:begin -->` .. `<!-- front-page:end -->`: the rows of README's chart ([`front_page`]).
//!
//! A summary is `benches/results/DEVICE.jsonl` ([`summary`]). `--add` puts raw results into it. `--check` compares, and
//! lists the records that are not of today's kernels ([`sources`]).

mod checks;
mod front_page;
mod keys;
mod model;
mod sources;
mod summary;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use xshell::Shell;

use crate::variants;

/// The pages with tables.
const PAGES: [&str; 5] = [
    "README.md",
    "book/src/performance/results.md",
    "book/src/performance/model.md",
    "book/src/performance/correctness.md",
    "book/src/reference/variants.md",
];
const RESULTS: &str = "benches/results";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Changes nothing; fails when a table or the chart differs from its source.
    #[arg(long)]
    check: bool,
    /// Fails also when a record is of another kernel than today's, or checks name no keys of their kernels.
    #[arg(long, requires = "check")]
    strict: bool,
    /// Compares the tables and the chart alone. Listing stale records builds two commands, and fails nothing.
    #[arg(long, requires = "check", conflicts_with_all = ["strict", "keys"])]
    tables: bool,
    /// Today's keys, as `attn keys --json --code` printed them, instead of those of this tree. Finding code keys of
    /// this tree compiles what the cache of kernels does not have.
    #[arg(long, value_name = "FILE", requires = "check")]
    keys: Option<PathBuf>,
    /// Raw results to summarise into benches/results first: what `attn check`, `attn bench` or
    /// benches/baselines/interleave.py wrote.
    #[arg(long, value_name = "RAW.jsonl", conflicts_with = "check", num_args = 1..)]
    add: Vec<PathBuf>,
    /// Replaces the text keys of records by the code keys of the same kernels: what `attn keys --json --code` printed
    /// at the commit of the records, or `attn keys --json --cache DIR` of what was compiled there.
    #[arg(long, value_name = "CODES.jsonl", conflicts_with = "check")]
    rekey: Option<PathBuf>,
}

/// Rewrites, or checks, every page and the chart.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let results = root.join(RESULTS);
    for raw in &args.add {
        println!("{}: summarised", summary::add(&results, raw)?.display());
    }
    if let Some(path) = &args.rekey {
        let (proven, remaining) = summary::rekey(&results, &keys::read(&read(path)?)?)?;
        println!("{proven} text keys became code keys, {remaining} remain");
    }
    let sections = summary::load_all(&results)?;
    let mut files = vec![(front_page::CHART, front_page::chart(&sections)?)];
    for page in PAGES {
        let text = fs::read_to_string(root.join(page)).with_context(|| page.to_owned())?;
        files.push((page, rewrite(&text, &sections).with_context(|| page.to_owned())?));
    }
    if args.check && !args.tables {
        let today = match &args.keys {
            Some(path) => sources::read_keys(&read(path)?)?,
            None => sources::today(sh, root, &sections)?,
        };
        sources::report(&sources::sources(&sections, &today), args.strict)?;
    }
    let mut stale = Vec::new();
    for (file, new) in files {
        let path = root.join(file);
        if fs::read_to_string(&path).unwrap_or_default() == new {
            continue;
        }
        stale.push(file);
        if !args.check {
            fs::write(&path, new).with_context(|| file.to_owned())?;
        }
    }
    match (stale.is_empty(), args.check) {
        (true, _) => println!("every table equals its source"),
        (false, true) => {
            bail!("{}: differ from the registry or {RESULTS}; run `cargo xtask bench-report`", stale.join(", "))
        }
        (false, false) => println!("written: {}", stale.join(", ")),
    }
    Ok(())
}

/// The text of a file that the command line names.
fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// `text` with the current content of each of its tables.
fn rewrite(text: &str, sections: &[summary::Section]) -> Result<String> {
    let text = between(text, "bench", &|| tables::titled(sections))?;
    let text = between(&text, "checks", &|| checks::table(sections))?;
    let text = between(&text, "model", &|| model::tables(sections))?;
    let text = between(&text, "front-page", &|| front_page::table(sections))?;
    between(&text, "variants", &variants::table)
}

/// `text` with what `table` gives between the marks `<!-- NAME:begin -->` and `<!-- NAME:end -->`, if it has them.
/// A note may follow `begin`.
pub(crate) fn between(text: &str, name: &str, table: &dyn Fn() -> Result<String>) -> Result<String> {
    let (open, close) = (format!("<!-- {name}:begin"), format!("<!-- {name}:end -->"));
    let Some(begin) = text.find(&open) else { return Ok(text.to_owned()) };
    let begin = begin + text[begin..].find("-->").with_context(|| format!("`{open}` is not closed by `-->`"))? + 3;
    let end = begin + text[begin..].find(&close).with_context(|| format!("{open} has no {close}"))?;
    Ok(format!("{}\n{}{}", &text[..begin], table()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;

    use serde_json::Value;

    use super::between;
    use crate::paths::{jsonl_files, root};

    /// So that no table against baselines has an older time of the same batch. The variants of decode are timed beside
    /// `full`.
    #[test]
    fn a_batch_is_timed_under_one_name() {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let files = jsonl_files(&root().join("benches/cases")).expect("case files");
        for path in files.into_iter().filter(|path| !path.ends_with("interleaved_decode_variants.jsonl")) {
            for line in fs::read_to_string(path).expect("a file").lines() {
                let mut case: Value = serde_json::from_str(line).expect("a case");
                let name = case["name"].as_str().expect("a name").to_owned();
                for field in ["name", "kernel", "seed", "graph", "ours_also"] {
                    case.as_object_mut().expect("an object").remove(field);
                }
                names.entry(case.to_string()).or_default().insert(name);
            }
        }
        let twice: Vec<_> = names.values().filter(|names| names.len() > 1).collect();
        assert!(names.len() > 100 && twice.is_empty(), "{twice:?}");
    }

    #[test]
    fn a_table_replaces_what_stands_between_its_marks() {
        let table = || Ok("new\n".to_owned());
        let text = "x\n<!-- bench:begin -->\nold\n<!-- bench:end -->\ny\n";
        let new = between(text, "bench", &table).expect("marks");
        assert_eq!(new, "x\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\ny\n");
        assert_eq!(between(&new, "bench", &table).expect("marks"), new);
        assert_eq!(between(text, "checks", &table).expect("no marks"), text);
        assert!(between("<!-- bench:begin -->", "bench", &table).is_err());
    }
}
