//! The table of checks: every result file that `attn check` wrote, as a row.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

const BEGIN: &str = "<!-- checks:begin -->";
const END: &str = "<!-- checks:end -->";

/// `text` with the table between its marks made anew, if it has them.
pub(super) fn rewrite(text: &str, results: &Path) -> Result<String> {
    let Some(begin) = text.find(BEGIN).map(|at| at + BEGIN.len()) else { return Ok(text.to_owned()) };
    let end = begin + text[begin..].find(END).with_context(|| format!("{BEGIN} has no {END}"))?;
    Ok(format!("{}\n{}{}", &text[..begin], table(results)?, &text[end..]))
}

/// A row for each file of checks, in the order of file names.
fn table(results: &Path) -> Result<String> {
    let mut files: Vec<_> = fs::read_dir(results)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|x| x == "jsonl"));
    files.sort();
    let mut out = String::from(
        "| file | cases | within tolerance | largest rel_err, row_err, lse_err, of the tolerance | commit |\n|---|---:|---:|---:|---|",
    );
    for path in files {
        let lines = fs::read_to_string(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(row) = row(&name, &lines).with_context(|| path.display().to_string())? {
            let _ = write!(out, "\n{row}");
        }
    }
    out.push('\n');
    Ok(out)
}

/// The row of a file; `None` where it is none of checks.
fn row(name: &str, lines: &str) -> Result<Option<String>> {
    let mut records = lines.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str::<Value>);
    let Some(about) = records.next().transpose()? else { return Ok(None) };
    let records = records.collect::<Result<Vec<_>, _>>()?;
    if !records.iter().any(|record| record["passed"].is_boolean()) {
        return Ok(None);
    }
    let commit = about["about"]["commit"].as_str().context("the first line names no commit")?;
    let passed = records.iter().filter(|record| record["passed"] == true).count();
    if passed < records.len() && about["about"]["known"].is_null() {
        bail!("{} cases do not pass; `known` in the first line has to say why", records.len() - passed);
    }
    let worst = |error: &str, tolerance: &str| {
        let share = records.iter().filter_map(|r| Some(r[error].as_f64()? / r["tolerance"][tolerance].as_f64()?));
        format!("{:.0} %", 100.0 * share.fold(0.0, f64::max))
    };
    let shares = [("rel_err", "rel"), ("row_err", "row"), ("lse_err", "lse")].map(|(e, t)| worst(e, t)).join(", ");
    Ok(Some(format!("| `{name}` | {} | {passed} | {shares} | {commit} |", records.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKS: &str = concat!(
        r#"{"about":{"device":"H200","commit":"abc"}}"#,
        "\n",
        r#"{"name":"a","passed":true,"rel_err":1e-4,"row_err":2e-3,"lse_err":0.0,"tolerance":{"rel":1e-3,"row":4e-3,"lse":1e-3}}"#,
        "\n",
        r#"{"name":"b","passed":true,"rel_err":7e-4,"row_err":1e-4,"lse_err":1e-5,"tolerance":{"rel":1e-3,"row":4e-3,"lse":1e-3}}"#,
    );

    #[test]
    fn files_of_checks_are_rows_and_others_are_not() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("c.jsonl"), CHECKS).expect("written");
        fs::write(dir.path().join("b.jsonl"), "{\"about\":{}}\n{\"ms\":1.0}").expect("written");
        let text = rewrite("x\n<!-- checks:begin -->old<!-- checks:end -->\ny\n", dir.path()).expect("rewritten");
        assert!(text.contains("| `c.jsonl` | 2 | 2 | 70 %, 50 %, 1 % | abc |"), "{text}");
        assert!(!text.contains("b.jsonl") && !text.contains("old") && text.ends_with("<!-- checks:end -->\ny\n"));
        assert_eq!(rewrite(&text, dir.path()).expect("rewritten"), text);
        assert_eq!(rewrite("no marks", dir.path()).expect("as it is"), "no marks");
    }

    #[test]
    fn what_does_not_pass_has_to_be_explained() {
        let failed = CHECKS.replacen("true", "false", 1);
        assert!(row("c", &failed).is_err());
        let known = failed.replacen("\"commit\"", "\"known\":\"a reason\",\"commit\"", 1);
        assert!(row("c", &known).expect("a row").expect("of checks").contains("| 2 | 1 |"));
        assert!(row("c", &CHECKS.replacen("\"commit\":\"abc\"", "\"x\":1", 1)).is_err());
    }
}
