//! Tables of timings in Markdown, from sections of result summaries.

use std::{collections::BTreeSet, fmt::Write as _};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::summary::Section;

/// A table with a heading for each section that has a title and no page of its own.
pub(super) fn titled(sections: &[Section]) -> Result<String> {
    let mut out = String::new();
    for section in sections.iter().filter(|section| !section.about.contains_key("page")) {
        if let Some(title) = section.about.get("title").and_then(Value::as_str) {
            let _ = write!(out, "\n## {title}\n\n{}", table(section).with_context(|| section.name().to_owned())?);
        }
    }
    Ok(out)
}

/// The table of one section, and under it where and how it was measured.
fn table(section: &Section) -> Result<String> {
    if section.rows.is_empty() {
        bail!("a section without rows");
    }
    let word = |key: &str| section.about.get(key).and_then(Value::as_str);
    let baseline = word("ratio").unwrap_or("best baseline");
    let interleaved = section.rows.iter().all(|row| row["us"].is_object());
    let text = match word("runners") {
        Some("listed") if interleaved => listed(&section.rows),
        _ if interleaved => compared(&section.rows, baseline),
        _ => single(&section.rows),
    };
    Ok(format!("{text}\n{}\n", about(section)))
}

/// Where and how a section was measured, as a sentence of at most 120 columns a line.
pub(super) fn about(section: &Section) -> String {
    let shown =
        section.about.iter().filter(|(key, _)| !["name", "title", "ratio", "runners", "page"].contains(&key.as_str()));
    let words: Vec<_> =
        shown.map(|(k, v)| format!("{k} {}", v.as_str().map_or(v.to_string(), str::to_owned))).collect();
    wrapped(&format!("{}.", words.join(", ")), 120)
}

/// `text` with line breaks in place of spaces, so that no line has more than `columns` characters.
fn wrapped(text: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > columns {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += length;
    }
    out
}

/// Microseconds of every runner of an interleaved benchmark, and the ratio of ours to `baseline`.
pub(super) fn compared<'a>(rows: impl IntoIterator<Item = &'a Value> + Clone, baseline: &str) -> String {
    let each = rows.clone().into_iter().filter_map(|row| row["us"].as_object());
    let runners: BTreeSet<&str> = each.flat_map(|us| us.keys().map(String::as_str)).collect();
    let mut out = String::from("| case |");
    for runner in &runners {
        let _ = write!(out, " {runner}, us |");
    }
    let _ = write!(out, " ours / {baseline} |\n|---|");
    out.push_str(&"---:|".repeat(runners.len() + 1));
    for row in rows {
        let _ = write!(out, "\n| {} |", case(row));
        for runner in &runners {
            let _ = match row["us"][*runner].as_f64() {
                Some(us) => write!(out, " {us:.1} |"),
                None => write!(out, " |"),
            };
        }
        let ratios = row["ratio"].as_object().into_iter().flat_map(|ratios| ratios.values());
        let words: Vec<_> = ratios.filter_map(Value::as_f64).map(|ratio| format!("{ratio:.3}")).collect();
        let _ = write!(out, " {} |", words.join(", "));
    }
    out.push('\n');
    out
}

/// An interleaved benchmark whose cases have different runners (`"runners": "listed"`): the fastest first, by name.
fn listed(rows: &[Value]) -> String {
    let mut out = String::from(
        "| case | ours, us | plan, us | other modes of ours, us | baselines, us | ours / best baseline \
         | ours / best other mode |\n|---|---:|---:|---|---|---:|---:|",
    );
    for row in rows {
        let mut runners: Vec<(&str, f64)> =
            row["us"].as_object().into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_f64()?))).collect();
        runners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let names = |wanted: &dyn Fn(&str) -> Option<String>| {
            let each = runners.iter().filter_map(|(name, us)| Some((wanted(name)?, us)));
            each.map(|(name, us)| format!("{name} {us:.1}")).collect::<Vec<_>>().join(", ")
        };
        let modes = names(&|name| name.strip_prefix("ours:").map(str::to_owned));
        let baselines =
            names(&|name| (!name.starts_with("ours")).then(|| name.trim_start_matches("flashinfer-").to_owned()));
        let ours = row["us"]["ours"].as_f64();
        let best_mode = runners.iter().find(|(name, _)| name.starts_with("ours:")).map(|(_, us)| *us);
        let cell = |x: Option<f64>, digits: usize| x.map_or(String::new(), |x| format!("{x:.digits$}"));
        let _ = write!(
            out,
            "\n| {} | {} | {} | {modes} | {baselines} | {} | {} |",
            case(row),
            cell(ours, 1),
            cell(row["plan_us"].as_f64(), 0),
            cell(row["ratio"]["ours"].as_f64(), 3),
            cell(ours.zip(best_mode).map(|(ours, mode)| ours / mode), 3),
        );
    }
    out.push('\n');
    out
}

/// Results of `attn bench`.
fn single(rows: &[Value]) -> String {
    let mut out = String::from("| case | us | GB/s | TFLOP/s | plan, us |\n|---|---:|---:|---:|---:|");
    for row in rows {
        let figure =
            |key: &str, digits: usize| row[key].as_f64().map_or(String::new(), |figure| format!("{figure:.digits$}"));
        let _ = match row["cannot"].as_str() {
            Some(why) => write!(out, "\n| {} | {why} | | | |", case(row)),
            None => write!(
                out,
                "\n| {} | {} | {} | {} | {} |",
                case(row),
                figure("us", 1),
                figure("gbps", 0),
                figure("tflops", 1),
                figure("plan_us", 1)
            ),
        };
    }
    out.push('\n');
    out
}

pub(super) fn case(row: &Value) -> &str {
    row["case"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn section(about: &Value, rows: Vec<Value>) -> Section {
        Section { about: about.as_object().expect("an object").clone(), rows }
    }

    #[test]
    fn sections_with_a_title_are_tables() {
        let rows = vec![json!({"case": "decode a", "us": {"ours": 100.0, "fa2": 200.0}, "ratio": {"ours": 0.5}})];
        let titled_section = section(&json!({"name": "r", "title": "Decode", "device": "H200"}), rows.clone());
        let other = section(&json!({"name": "s"}), rows);
        let text = titled(&[other, titled_section]).expect("tables");
        assert!(text.starts_with("\n## Decode\n") && text.matches("| decode a |").count() == 1, "{text}");
        assert!(text.contains("| decode a | 200.0 | 100.0 | 0.500 |") && text.ends_with("device H200.\n"), "{text}");
        assert!(table(&section(&json!({}), Vec::new())).is_err());
    }

    #[test]
    fn cases_with_different_runners_name_them_in_their_cells() {
        let us = json!({
            "ours": 300.0, "ours:auto": 310.0, "ours:sequential": 400.0, "flashinfer-batch-pod": 500.0,
            "flashinfer-sequential-fa2": 450.0,
        });
        let rows = vec![
            json!({"case": "mixed a", "us": us, "ratio": {"ours": 0.667, "ours:auto": 0.7}, "plan_us": 21.4}),
            json!({"case": "cascade b", "us": {"ours:flat": 200.0, "flashinfer-cascade": 100.0}, "ratio": {}}),
        ];
        let text = table(&section(&json!({"runners": "listed", "device": "H200"}), rows)).expect("a table");
        let row = "| mixed a | 300.0 | 21 | auto 310.0, sequential 400.0 | sequential-fa2 450.0, batch-pod 500.0 \
                   | 0.667 | 0.968 |";
        assert!(
            text.contains(row) && text.contains("| cascade b |  |  | flat 200.0 | cascade 100.0 |  |  |"),
            "{text}"
        );
        assert!(!text.contains("listed"), "{text}");
    }

    #[test]
    fn lines_end_before_the_last_column() {
        assert_eq!(wrapped("aa bb cc", 5), "aa bb\ncc");
        assert_eq!(wrapped("aaaaaaa b", 5), "aaaaaaa\nb");
    }
}
