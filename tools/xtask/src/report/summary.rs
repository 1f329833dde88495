//! Summaries of results: `benches/results/DEVICE.jsonl` keeps of each raw result file what the tables need.
//!
//! A section begins with `{"about": {"name": .., "device": .., "commit": .., "date": ..}}`; its rows follow. Raw
//! results are artefacts of a run on a GPU and are not committed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use super::keys;
use crate::paths::jsonl_files;

/// Results of one command at one commit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Section {
    /// Name, device, commit, date, method; a title where it is a table.
    pub(super) about: Map<String, Value>,
    /// Rows, in the order of the raw file.
    pub(super) rows: Vec<Value>,
}

impl Section {
    /// Its name: that of the raw file without the device.
    pub(super) fn name(&self) -> &str {
        self.about.get("name").and_then(Value::as_str).unwrap_or_default()
    }
}

/// The sections of every summary below `dir`, by file, then by name.
pub(super) fn load_all(dir: &Path) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for path in jsonl_files(dir)? {
        sections.extend(load(&fs::read_to_string(&path)?).with_context(|| path.display().to_string())?);
    }
    Ok(sections)
}

/// The sections of a file; rows before the first `about` belong to none, and are an error.
fn load(text: &str) -> Result<Vec<Section>> {
    let mut sections: Vec<Section> = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut value: Value = serde_json::from_str(line).with_context(|| format!("line {}", at + 1))?;
        match value.get_mut("about").map(Value::take) {
            Some(Value::Object(about)) => sections.push(Section { about, rows: Vec::new() }),
            _ => {
                let section = sections.last_mut();
                section.with_context(|| format!("line {}: a row before any `about`", at + 1))?.rows.push(value);
            }
        }
    }
    Ok(sections)
}

/// Summarises the raw results `raw` into the summary of their device, in place of those of the same name. Returns the
/// file of the summary.
pub(super) fn add(dir: &Path, raw: &Path) -> Result<PathBuf> {
    let text = fs::read_to_string(raw).with_context(|| raw.display().to_string())?;
    let stem = raw.file_stem().and_then(|name| name.to_str()).context("a result file has a name")?;
    let (device, section) = summarised(&text, stem).with_context(|| raw.display().to_string())?;
    let path = dir.join(format!("{device}.jsonl"));
    let mut sections = load(&fs::read_to_string(&path).unwrap_or_default())?;
    sections.retain(|other| other.name() != section.name());
    sections.push(section);
    sections.sort_by(|a, b| a.name().cmp(b.name()));
    write(&path, &sections)?;
    Ok(path)
}

/// Writes the summary of a device.
fn write(path: &Path, sections: &[Section]) -> Result<()> {
    let mut out = String::new();
    for section in sections {
        writeln!(out, "{}", json!({ "about": section.about }))?;
        for row in &section.rows {
            writeln!(out, "{row}")?;
        }
    }
    fs::write(path, out).with_context(|| path.display().to_string())
}

/// Replaces text keys in every summary below `dir` by the code keys that `codes` proves. Returns how many were proven,
/// and how many remain text keys.
pub(super) fn rekey(dir: &Path, codes: &BTreeMap<String, Option<String>>) -> Result<(usize, usize)> {
    let mut all = (0, 0);
    for path in jsonl_files(dir)? {
        let mut sections = load(&fs::read_to_string(&path)?).with_context(|| path.display().to_string())?;
        let rows = sections.iter_mut().flat_map(|section| &mut section.rows);
        let counts = rows.map(|row| keys::rekey(row, codes));
        let (proven, remaining) = counts.fold((0, 0), |all, of| (all.0 + of.0, all.1 + of.1));
        if proven > 0 {
            write(&path, &sections)?;
        }
        all = (all.0 + proven, all.1 + remaining);
    }
    Ok(all)
}

/// The device of a raw file as the name of a file (`h200`, `host`), and its section.
fn summarised(text: &str, stem: &str) -> Result<(String, Section)> {
    let [section] = &load(text)?[..] else { anyhow::bail!("a raw result file has one `about`, in its first line") };
    let device = section.about.get("device").and_then(Value::as_str).context("`about` names no device")?;
    let device = match device.strip_prefix("NVIDIA ") {
        Some(gpu) => gpu.to_lowercase().replace(' ', "-"),
        None => "host".to_owned(),
    };
    let name = section.name();
    let name = if name.is_empty() { stem.trim_start_matches(&format!("{device}-")) } else { name }.to_owned();
    let mut about = section.about.clone();
    about.insert("name".to_owned(), name.into());
    let rows = if section.rows.iter().any(|row| row["passed"].is_boolean()) {
        vec![checks(&section.rows)]
    } else {
        section.rows.iter().map(row).collect()
    };
    Ok((device, Section { about, rows }))
}

/// All cases of `attn check` as one row: how many pass, and the largest errors as parts of their tolerance.
fn checks(rows: &[Value]) -> Value {
    let passed = rows.iter().filter(|row| row["passed"] == true).count();
    let worst = |error: &str, tolerance: &str| {
        let parts = rows.iter().filter_map(|row| Some(row[error].as_f64()? / row["tolerance"][tolerance].as_f64()?));
        rounded(parts.fold(0.0, f64::max), 5)
    };
    let worst = json!({
        "rel": worst("rel_err", "rel"), "row": worst("row_err", "row"), "lse": worst("lse_err", "lse"),
    });
    let mut kept = json!({ "cases": rows.len(), "passed": passed, "worst_of_tolerance": worst });
    keys::keep(&mut kept, rows);
    kept
}

/// What is kept of a raw row.
fn row(raw: &Value) -> Value {
    let case = case_name(raw);
    if let Some(ms) = raw["ms"].as_object() {
        // the interleaved benchmark
        let us: BTreeMap<_, _> = ms.iter().filter_map(|(k, v)| Some((k, rounded(v.as_f64()? * 1e3, 4)))).collect();
        let ratio = raw.get("ratio").or(raw.get("vs_best_peer")).and_then(Value::as_object);
        let ratio: BTreeMap<_, _> =
            ratio.into_iter().flatten().filter_map(|(k, v)| Some((k, rounded(v.as_f64()?, 6)))).collect();
        let mut kept = json!({ "case": case, "us": us, "ratio": ratio });
        if let Some(plan) = raw["extra"]["ours"]["plan_us"].as_f64() {
            kept["plan_us"] = rounded(plan, 3).into();
        }
        keys::keep(&mut kept, [&raw["extra"]["ours"]]);
        return kept;
    }
    if let Some(ms) = raw["ms"].as_f64() {
        // `attn bench`
        let mut kept = json!({ "case": case, "us": rounded(ms * 1e3, 4) });
        for key in ["gbps", "tflops", "plan_us"] {
            if let Some(figure) = raw[key].as_f64() {
                kept[key] = rounded(figure, 3).into();
            }
        }
        // the kernels of another run mode are not those of the case
        if raw["form"].is_null() {
            keys::keep(&mut kept, [raw]);
        }
        return kept;
    }
    if let Some(ms) = raw["cold_ms"].as_f64() {
        // `attn compile --cold`
        return json!({ "case": case, "kernel": raw["kernel"], "cold_ms": rounded(ms, 1) });
    }
    raw.clone()
}

/// The name of a case, which the interleaved benchmark nests and `attn` does not; its variant when it has none.
fn case_name(raw: &Value) -> &str {
    let case = raw.get("case").unwrap_or(raw);
    case.as_str().or(case["name"].as_str()).or(case["variant"].as_str()).unwrap_or("")
}

fn rounded(x: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (x * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: &str = concat!(
        r#"{"about":{"device":"NVIDIA H200","commit":"abc"}}"#,
        "\n",
        r#"{"case":{"name":"decode a"},"ms":{"ours":0.1,"fa2":0.2},"ratio":{"ours":0.5},"#,
        r#""extra":{"ours":{"plan_us":21.4,"key":"0123456789abcdef","code":"fedcba9876543210"}}}"#,
        "\n",
        r#"{"name":"b","ms":1.0,"gbps":5.0,"key":"0123456789abcdef"}"#,
    );

    #[test]
    fn raw_results_become_a_section_and_replace_the_one_before() {
        let dir = tempfile::tempdir().expect("a folder");
        let raw = dir.path().join("h200-decode.raw");
        fs::write(&raw, RAW).expect("written");
        let file = add(dir.path(), &raw).expect("summarised");
        assert!(file.ends_with("h200.jsonl"));
        fs::write(&raw, RAW.replace("0.1", "0.15")).expect("written");
        add(dir.path(), &raw).expect("summarised");
        let [section] = &load_all(dir.path()).expect("a summary")[..] else { panic!("one section") };
        assert_eq!(section.name(), "decode");
        assert_eq!(
            section.rows[0],
            json!({"case":"decode a","us":{"ours":150.0,"fa2":200.0},"ratio":{"ours":0.5},"plan_us":21.4,
                "code":"fedcba987654"})
        );
        assert_eq!(section.rows[1], json!({"case":"b","us":1000.0,"gbps":5.0,"key":"0123456789ab"}));
    }

    #[test]
    fn checks_become_one_row() {
        let text = concat!(
            r#"{"about":{"device":"a host","commit":"abc"}}"#,
            "\n",
            r#"{"name":"a","passed":true,"key":"0123456789abcdef","rel_err":1e-4,"row_err":2e-3,"lse_err":0.0,"#,
            r#""tolerance":{"rel":1e-3,"row":4e-3,"lse":1e-3}}"#,
            "\n",
            r#"{"name":"b","passed":false,"keys":["aaaabbbbccccdddd"],"rel_err":7e-4,"row_err":1e-4,"lse_err":1e-5,"#,
            r#""tolerance":{"rel":1e-3,"row":4e-3,"lse":1e-3}}"#,
        );
        let (device, section) = summarised(text, "check").expect("sound");
        assert_eq!(device, "host");
        let worst = json!({"rel": 0.7, "row": 0.5, "lse": 0.01});
        assert_eq!(
            section.rows,
            [json!({"cases": 2, "passed": 1, "worst_of_tolerance": worst,
            "keys": ["0123456789ab", "aaaabbbbcccc"]})]
        );
    }

    #[test]
    fn a_row_needs_an_about_before_it() {
        assert!(load("{\"ms\": 1.0}").is_err());
        assert!(summarised("{\"about\": {}}", "x").is_err(), "no device");
    }
}
