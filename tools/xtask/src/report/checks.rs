//! The table of checks: every section that `attn check` gave, as a row.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::summary::Section;

/// A row for each section of checks.
pub(super) fn table(sections: &[Section]) -> Result<String> {
    let mut out = String::from(
        "| checks | cases | within tolerance | largest rel_err, row_err, lse_err, of the tolerance | commit |\n\
         |---|---:|---:|---:|---|",
    );
    for section in sections {
        if let Some(row) = row(section).with_context(|| section.name().to_owned())? {
            let _ = write!(out, "\n{row}");
        }
    }
    out.push('\n');
    Ok(out)
}

/// The row of a section; `None` where it holds no checks.
fn row(section: &Section) -> Result<Option<String>> {
    let Some(checks) = section.rows.first().filter(|row| row["passed"].is_u64()) else { return Ok(None) };
    let number = |key: &str| checks[key].as_u64().with_context(|| format!("no number `{key}`"));
    let (cases, passed) = (number("cases")?, number("passed")?);
    let commit = section.about.get("commit").and_then(Value::as_str).context("`about` names no commit")?;
    if passed < cases && !section.about.contains_key("known") {
        bail!("{} cases do not pass; `known` in `about` has to say why", cases - passed);
    }
    let worst = |error: &str| checks["worst_of_tolerance"][error].as_f64().unwrap_or_default();
    let worst = ["rel", "row", "lse"].map(|error| format!("{:.0} %", 100.0 * worst(error))).join(", ");
    Ok(Some(format!("| `{}` | {cases} | {passed} | {worst} | {commit} |", section.name())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checks(passed: u64) -> Section {
        let about = json!({"name": "c", "commit": "abc"}).as_object().expect("an object").clone();
        let worst = json!({"rel": 0.7, "row": 0.5, "lse": 0.01});
        Section { about, rows: vec![json!({"cases": 2, "passed": passed, "worst_of_tolerance": worst})] }
    }

    #[test]
    fn sections_of_checks_are_rows_and_others_are_not() {
        let mut other = checks(2);
        other.rows = vec![json!({"case": "b", "us": 1.0})];
        let text = table(&[checks(2), other]).expect("a table");
        assert!(text.ends_with("|\n| `c` | 2 | 2 | 70 %, 50 %, 1 % | abc |\n"), "{text}");
    }

    #[test]
    fn failures_have_to_be_explained() {
        assert!(row(&checks(1)).is_err());
        let mut known = checks(1);
        known.about.insert("known".to_owned(), "a reason".into());
        assert!(row(&known).expect("a row").expect("of checks").contains("| 2 | 1 |"));
        known.about.remove("commit");
        assert!(row(&known).is_err());
    }
}
