//! `cargo xtask bench-report`: results become the tables of README, so that no figure there is typed by hand; the table
//! of variants is made from the registry ([`variants`]).
//!
//! Between `<!-- bench:begin -->` and `<!-- bench:end -->` stands a table of every result file whose `about` has a `title`.
//! Between `<!-- checks:begin -->` and `<!-- checks:end -->` stands a row for every file that `attn check` wrote.
//! Elsewhere a single table is marked with `<!-- bench: FILE.jsonl [prefix of case names] -->` and `<!-- /bench -->`.
//! A line of a result file is what `attn bench`, `attn check` or `race.py --out` writes; a first line
//! `{"about": {..}}` names device, commit and date.

mod checks;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::variants;

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";
const OPEN: &str = "<!-- bench: ";
const CLOSE: &str = "<!-- /bench -->";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Changes nothing; fails when a table differs from its results.
    #[arg(long)]
    check: bool,
    /// The file with the tables.
    #[arg(long, default_value = "README.md")]
    readme: String,
}

/// Rewrites, or checks, every marked table.
pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    let path = root.join(&args.readme);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let results = root.join("benches/results");
    let new = rewrite(&text, &|file| {
        let path = results.join(file);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    })?;
    let new = rewrite_all(&new, &titled(&results)?)?;
    let new = checks::rewrite(&new, &results)?;
    let new = variants::rewrite(&new)?;
    if new == text {
        println!("{}: every table equals its source", args.readme);
    } else if args.check {
        bail!("{}: tables differ from the registry or benches/results; run `cargo xtask bench-report`", args.readme);
    } else {
        fs::write(&path, new)?;
        println!("{}: tables rewritten", args.readme);
    }
    Ok(())
}

/// Every result file that has a title, with its table, in the order of file names.
fn titled(results: &Path) -> Result<String> {
    let mut files: Vec<_> = fs::read_dir(results)?.flatten().map(|e| e.path()).collect();
    files.retain(|path| path.extension().is_some_and(|x| x == "jsonl"));
    files.sort();
    let mut out = String::new();
    for path in files {
        let lines = fs::read_to_string(&path)?;
        let first: Value = serde_json::from_str(lines.lines().next().unwrap_or_default()).unwrap_or_default();
        if let Some(title) = first["about"]["title"].as_str() {
            let table = table(&lines, "").with_context(|| path.display().to_string())?;
            let _ = write!(out, "\n### {title}\n\n{table}");
        }
    }
    Ok(out)
}

/// `text` with `tables` between its begin and end marks, if it has them.
fn rewrite_all(text: &str, tables: &str) -> Result<String> {
    let Some(begin) = text.find(BEGIN).map(|at| at + BEGIN.len()) else { return Ok(text.to_owned()) };
    let end = begin + text[begin..].find(END).with_context(|| format!("{BEGIN} has no {END}"))?;
    Ok(format!("{}\n{tables}{}", &text[..begin], &text[end..]))
}

/// `text` with each marked table made anew; `load` reads a result file.
fn rewrite(text: &str, load: &dyn Fn(&str) -> Result<String>) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        let (before, from) = rest.split_at(at);
        let end = from.find("-->").context("a `<!-- bench:` mark is not closed by `-->`")? + 3;
        let mark = &from[..end];
        let stop = from.find(CLOSE).with_context(|| format!("{mark} has no {CLOSE}"))?;
        let what = mark[OPEN.len()..mark.len() - 3].trim();
        let (file, prefix) = what.split_once(' ').unwrap_or((what, ""));
        let table = table(&load(file)?, prefix.trim()).with_context(|| file.to_owned())?;
        let _ = write!(out, "{before}{mark}\n{table}{CLOSE}");
        rest = &from[stop + CLOSE.len()..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The table of one result file, of the cases whose name starts with `prefix`.
fn table(lines: &str, prefix: &str) -> Result<String> {
    let mut about = None;
    let mut rows = Vec::new();
    for (i, line) in lines.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let record: Value = serde_json::from_str(line).with_context(|| format!("line {}", i + 1))?;
        match record.get("about") {
            Some(x) => about = Some(x.clone()),
            None if case_name(&record).starts_with(prefix) => rows.push(record),
            None => {}
        }
    }
    if rows.is_empty() {
        bail!("no case starts with `{prefix}`");
    }
    let peer = about.as_ref().and_then(|about| about["ratio"].as_str()).unwrap_or("best peer");
    let raced = rows.iter().all(|r| r["ms"].is_object());
    let mut text = match about.as_ref().and_then(|about| about["runners"].as_str()) {
        Some("listed") if raced => race_listed(&rows),
        _ if raced => race(&rows, peer),
        _ => single(&rows),
    };
    if let Some(Value::Object(about)) = about {
        let words: Vec<_> = about
            .iter()
            .filter(|(k, _)| !["title", "ratio", "runners"].contains(&k.as_str()))
            .map(|(k, v)| format!("{k} {}", v.as_str().map_or(v.to_string(), str::to_owned)))
            .collect();
        let _ = write!(text, "\n{}.\n", words.join(", "));
    }
    Ok(text)
}

/// Results of `race.py`: microseconds of every runner, and the ratio to `peer`, which is who it was raced against.
fn race(rows: &[Value], peer: &str) -> String {
    let runners: BTreeSet<&str> =
        rows.iter().flat_map(|r| r["ms"].as_object()).flat_map(|m| m.keys().map(String::as_str)).collect();
    let mut out = String::from("| case |");
    for r in &runners {
        let _ = write!(out, " {r}, us |");
    }
    let _ = write!(out, " ours / {peer} |\n|---|");
    out.push_str(&"---:|".repeat(runners.len() + 1));
    for row in rows {
        let _ = write!(out, "\n| {} |", case_name(row));
        for r in &runners {
            let _ = match row["ms"][*r].as_f64() {
                Some(ms) => write!(out, " {:.1} |", ms * 1e3),
                None => write!(out, " |"),
            };
        }
        let ratios: BTreeMap<_, _> = row["vs_best_peer"].as_object().into_iter().flatten().collect();
        let words: Vec<_> = ratios.values().filter_map(|v| v.as_f64()).map(|v| format!("{v:.3}")).collect();
        let _ = write!(out, " {} |", words.join(", "));
    }
    out.push('\n');
    out
}

/// Results of `race.py` whose cases have different runners (`"runners": "listed"` in `about`): the fastest first, by name.
fn race_listed(rows: &[Value]) -> String {
    let mut out = String::from(
        "| case | ours, us | plan, us | other forms of ours, us | peers, us | ours / best peer | ours / best other form |\n|---|---:|---:|---|---|---:|---:|",
    );
    for row in rows {
        let mut runners: Vec<(&str, f64)> =
            row["ms"].as_object().into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_f64()?))).collect();
        runners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let listed = |wanted: &dyn Fn(&str) -> Option<String>| {
            let each = runners.iter().filter_map(|(name, ms)| Some((wanted(name)?, ms * 1e3)));
            each.map(|(name, us)| format!("{name} {us:.1}")).collect::<Vec<_>>().join(", ")
        };
        let forms = listed(&|name| name.strip_prefix("ours:").map(str::to_owned));
        let peers =
            listed(&|name| (!name.starts_with("ours")).then(|| name.trim_start_matches("flashinfer-").to_owned()));
        let ours = row["ms"]["ours"].as_f64();
        let best_form = runners.iter().find(|(name, _)| name.starts_with("ours:")).map(|(_, ms)| *ms);
        let cell = |x: Option<f64>, digits: usize| x.map_or(String::new(), |x| format!("{x:.digits$}"));
        let _ = write!(
            out,
            "\n| {} | {} | {} | {forms} | {peers} | {} | {} |",
            case_name(row),
            cell(ours.map(|ms| ms * 1e3), 1),
            cell(row["extra"]["ours"]["plan_us"].as_f64(), 0),
            cell(row["vs_best_peer"]["ours"].as_f64(), 3),
            cell(ours.zip(best_form).map(|(ours, form)| ours / form), 3),
        );
    }
    out.push('\n');
    out
}

/// Results of `attn bench`.
fn single(rows: &[Value]) -> String {
    let mut out = String::from("| case | us | GB/s | TFLOP/s | plan, us |\n|---|---:|---:|---:|---:|");
    for row in rows {
        let figure = |key: &str, scale: f64, digits: usize| match row[key].as_f64() {
            Some(x) => format!("{:.digits$}", x * scale),
            None => String::new(),
        };
        let _ = match row["cannot"].as_str() {
            Some(why) => write!(out, "\n| {} | {why} | | | |", case_name(row)),
            None => write!(
                out,
                "\n| {} | {} | {} | {} | {} |",
                case_name(row),
                figure("ms", 1e3, 1),
                figure("gbps", 1.0, 0),
                figure("tflops", 1.0, 1),
                figure("plan_us", 1.0, 1)
            ),
        };
    }
    out.push('\n');
    out
}

/// The name of a case, which `race.py` nests and `attn` does not; its variant when it has none.
fn case_name(record: &Value) -> &str {
    let case = record.get("case").unwrap_or(record);
    case["name"].as_str().or(case["variant"].as_str()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::{rewrite, rewrite_all, titled};

    const RACE: &str = concat!(
        r#"{"about":{"device":"H200","commit":"abc"}}"#,
        "\n",
        r#"{"case":{"name":"decode a"},"ms":{"ours":0.1,"fa2":0.2},"vs_best_peer":{"ours":0.5}}"#,
        "\n",
        r#"{"case":{"name":"prefill b"},"ms":{"ours":1.0},"vs_best_peer":{}}"#,
    );

    #[test]
    fn a_table_is_made_from_its_results_and_made_again_is_the_same() {
        let text = "before\n<!-- bench: r.jsonl decode -->\nold\n<!-- /bench -->\nafter\n";
        let load = |file: &str| {
            assert_eq!(file, "r.jsonl");
            Ok(RACE.to_owned())
        };
        let new = rewrite(text, &load).expect("rewritten");
        assert!(new.contains("| decode a | 200.0 | 100.0 | 0.500 |"), "{new}");
        assert!(!new.contains("prefill b") && !new.contains("old"), "{new}");
        assert!(new.contains("device H200") && new.ends_with("after\n"), "{new}");
        assert_eq!(rewrite(&new, &load).expect("rewritten"), new);
    }

    #[test]
    fn titled_files_go_between_begin_and_end() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("a.jsonl"), RACE).expect("written");
        let with_title = RACE.replace("\"commit\"", "\"title\":\"Decode\",\"commit\"");
        std::fs::write(dir.path().join("b.jsonl"), with_title).expect("written");
        let tables = titled(dir.path()).expect("tables");
        assert!(tables.starts_with("\n### Decode\n") && tables.matches("| decode a |").count() == 1, "{tables}");
        let text = rewrite_all("x\n<!-- bench:begin -->\nold\n<!-- bench:end -->\ny\n", &tables).expect("marks");
        assert!(text.contains("### Decode") && !text.contains("old") && text.ends_with("<!-- bench:end -->\ny\n"));
        assert_eq!(rewrite_all(&text, &tables).expect("marks"), text);
        assert!(rewrite_all("<!-- bench:begin -->", "").is_err());
    }

    #[test]
    fn cases_with_different_runners_name_them_in_their_cells() {
        let lines = concat!(
            r#"{"about":{"title":"Serving","runners":"listed","device":"H200"}}"#,
            "\n",
            r#"{"case":{"name":"mixed a"},"ms":{"ours":0.3,"ours:auto":0.31,"ours:sequential":0.4,"flashinfer-batch-pod":0.5,"flashinfer-sequential-fa2":0.45},"#,
            r#""vs_best_peer":{"ours":0.667,"ours:auto":0.7},"extra":{"ours":{"plan_us":21.4}}}"#,
            "\n",
            r#"{"case":{"name":"cascade b"},"ms":{"ours:flat":0.2,"flashinfer-cascade":0.1},"vs_best_peer":{},"extra":{}}"#,
        );
        let table = super::table(lines, "").expect("a table");
        let row = "| mixed a | 300.0 | 21 | auto 310.0, sequential 400.0 | sequential-fa2 450.0, batch-pod 500.0 | 0.667 | 0.968 |";
        assert!(
            table.contains(row) && table.contains("| cascade b |  |  | flat 200.0 | cascade 100.0 |  |  |"),
            "{table}"
        );
        assert!(!table.contains("listed"), "{table}");
    }

    #[test]
    fn marks_without_end_and_tables_without_rows_are_errors() {
        let load = |_: &str| Ok(RACE.to_owned());
        assert!(rewrite("<!-- bench: r.jsonl -->", &load).is_err());
        assert!(rewrite("<!-- bench: r.jsonl nothing -->\n<!-- /bench -->", &load).is_err());
    }
}
