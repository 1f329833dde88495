//! Which records are of today's kernels. A record names the key of its kernel's code, or of its text where no code is
//! known; today's keys are those of the kernels that the grids and case files run now (`attn keys`). A record from
//! before keys were recorded is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;
use xshell::{Shell, cmd};

use super::keys;
use super::summary::Section;

/// What is known of the sources of a section's records.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sources<'a> {
    /// The name of the section.
    name: &'a str,
    /// Whether they are checks.
    checks: bool,
    /// Kernels of today.
    current: usize,
    /// Kernels that have changed since.
    stale: usize,
    /// Those of them of which the text is known, not the code.
    by_text: usize,
    /// Records without a key.
    unknown: usize,
}

/// The records of kernels of ours, by section. `today` are the keys of today's kernels.
pub(super) fn sources<'a>(sections: &'a [Section], today: &BTreeSet<String>) -> Vec<Sources<'a>> {
    let of = |section: &'a Section| {
        let mut sources = Sources { name: section.name(), ..Sources::default() };
        for row in section.rows.iter().filter(|row| of_a_kernel(row)) {
            sources.checks |= row["passed"].is_u64();
            let (texts, codes): (Vec<_>, Vec<_>) =
                (keys::of_row(row, "key").collect(), keys::of_row(row, "code").collect());
            let stale = |keys: &[&str]| keys.iter().filter(|key| !today.contains(**key)).count();
            let (by_text, by_code) = (stale(&texts), stale(&codes));
            sources.unknown += usize::from(texts.is_empty() && codes.is_empty());
            sources.current += texts.len() + codes.len() - by_text - by_code;
            sources.stale += by_text + by_code;
            sources.by_text += by_text;
        }
        sources
    };
    sections.iter().map(of).filter(|of| of.current + of.stale + of.unknown > 0).collect()
}

/// Whether a row is of attention kernels of ours: checks, and timings that `attn bench` or the interleaved benchmark
/// made. Ops, planning and models have other sources.
fn of_a_kernel(row: &Value) -> bool {
    let timed = row["case"].is_string() && (row["us"].is_number() || row["us"]["ours"].is_number());
    row["passed"].is_u64() || timed && row["cannot"].is_null()
}

/// The architectures of the records that name keys.
fn archs(sections: &[Section]) -> Result<BTreeSet<&'static str>> {
    let is_keyed = |row: &Value| keys::of_row(row, "key").chain(keys::of_row(row, "code")).next().is_some();
    let keyed = sections.iter().filter(|section| section.rows.iter().any(is_keyed));
    keyed
        .map(|section| {
            let device = section.about.get("device").and_then(Value::as_str).unwrap_or_default();
            match device {
                "NVIDIA H100" | "NVIDIA H200" => Ok("sm_90a"),
                _ if device.starts_with("NVIDIA H100 ") || device.starts_with("NVIDIA H200 ") => Ok("sm_90a"),
                _ => bail!(
                    "{}: the architecture of `{device}` is not known; name it in tools/xtask/src/report",
                    section.name()
                ),
            }
        })
        .collect()
}

/// The keys in `text`, the JSON lines of `attn keys`: of text, and of code where it has them.
pub(super) fn read_keys(text: &str) -> Result<BTreeSet<String>> {
    Ok(keys::read(text)?.into_iter().flat_map(|(key, code)| [Some(key), code]).flatten().collect())
}

/// The KV formats that the commands of records name, each in single quotes.
fn formats(sections: &[Section]) -> BTreeSet<&str> {
    let commands = sections.iter().filter_map(|section| section.about.get("command")?.as_str());
    let after = commands.flat_map(|command| command.split("--kv-format '").skip(1));
    after.filter_map(|text| text.split('\'').next()).collect()
}

/// Today's keys on the architectures of records, for the grids, that of serving over the formats of records too, the
/// files of benches/cases and the catalogue. Code keys, which need a compiler, only where records have them: of checks,
/// of timings or of both.
pub(super) fn today(sh: &Shell, root: &Path, sections: &[Section]) -> Result<BTreeSet<String>> {
    let (archs, formats) = (archs(sections)?, formats(sections));
    if archs.is_empty() {
        return Ok(BTreeSet::new());
    }
    let target = crate::paths::target_dir(root)?;
    let rows = || sections.iter().flat_map(|section| &section.rows).filter(|row| keys::of_row(row, "code").count() > 0);
    let of_timings = rows().any(|row| !row["passed"].is_u64());
    let code: &[&str] = if rows().any(|row| row["passed"].is_u64()) { &["--code"] } else { &[] };
    let _nvrtc = if of_timings || !code.is_empty() {
        Some(sh.push_env("ATTN_NVRTC", crate::nvrtc::ensure(sh, &target)?))
    } else {
        None
    };
    let files = crate::paths::jsonl_files(&root.join("benches/cases"))?;
    let archs = archs.iter().copied().collect::<Vec<_>>().join(";");
    let run = |words: &[&str]| cmd!(sh, "cargo run --quiet -p").args(words);
    let attn = |command| run(&["attn-cli", "--bin", "attn", "--", command, "--json", "--arch", &archs]);
    let catalogue = || run(&["attn-tests", "--features", "cuda", "--bin", "attn-catalogue", "--"]);
    let over = formats.iter().flat_map(|format| ["--kv-format", format]);
    let mut lines = attn("keys").args(code).args(over).args(&files).read()?;
    let cases = target.join("catalogue-cases.jsonl");
    fs::write(&cases, catalogue().arg("cases").read()?)?;
    let rows = catalogue().args(["keys", "--json", "--no-grids", "--arch", &archs]).args(code).arg(&cases).read()?;
    lines.extend(["\n", &rows, "\n"]);
    if of_timings {
        // timings are of cases as they are, on no other backend
        let of_cases = files.iter().fold(attn("compile"), |command, file| command.arg("--cases").arg(file));
        lines += &of_cases.read()?;
    }
    read_keys(&lines)
}

/// Prints what is stale and what is unknown. Under `strict`, stale records are an error, and checks of unknown sources
/// too.
pub(super) fn report(all: &[Sources<'_>], strict: bool) -> Result<()> {
    let mut failed = BTreeMap::new();
    for Sources { name, checks, current, stale, by_text, unknown } in all {
        if *stale > 0 {
            let text = if *by_text == 0 { String::new() } else { format!(", {by_text} of them by their text alone") };
            println!("stale: {name}: {stale} of {} kernels have changed since{text}", current + stale);
            failed.insert(*name, "stale");
        }
        if *unknown > 0 {
            println!("unknown: {name}: {unknown} records name no key");
            if *checks {
                failed.entry(*name).or_insert("without keys");
            }
        }
    }
    let current: usize = all.iter().map(|of| of.current).sum();
    println!("{current} recorded kernels are today's");
    if strict && !failed.is_empty() {
        let names: Vec<_> = failed.iter().map(|(name, why)| format!("{name} ({why})")).collect();
        bail!("records of other kernels than today's: {}; run them again on a GPU", names.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn section(name: &str, rows: Vec<Value>) -> Section {
        let about = json!({"name": name, "device": "NVIDIA H200"}).as_object().expect("an object").clone();
        Section { about, rows }
    }

    fn recorded() -> Vec<Section> {
        let us = json!({"ours": 2.0, "fa3": 3.0});
        vec![
            section("checks", vec![json!({"cases": 3, "passed": 3, "keys": ["aaaaaaaaaaaa", "bbbbbbbbbbbb"]})]),
            section("bench", vec![json!({"case": "x", "us": us, "key": "aaaaaaaaaaaa"})]),
            section("old", vec![json!({"case": "x", "us": 4.0}), json!({"case": "y", "cannot": "why"})]),
            section("ops", vec![json!({"op": "merge", "us": 4.0})]),
        ]
    }

    #[test]
    fn formats_are_those_that_commands_name() {
        let over = "attn check --grid serving --kv-format 'int8 / f16' --kv-format 'mx_fp8'";
        let of = |command: &str| {
            let mut section = section("checks", vec![]);
            section.about.insert("command".to_owned(), json!(command));
            section
        };
        let sections = [of(over), of("attn check --grid formats"), section("ops", vec![])];
        assert_eq!(formats(&sections).into_iter().collect::<Vec<_>>(), ["int8 / f16", "mx_fp8"]);
    }

    const TODAY: &str = "{\"key\":\"aaaaaaaaaaaa0123\"}\n\n{\"key\":\"bbbbbbbbbbbb4567\"}\n";

    #[test]
    fn strict_fails_when_a_record_is_made_stale() {
        let (sections, today) = (recorded(), read_keys(TODAY).expect("keys"));
        let all = sources(&sections, &today);
        assert_eq!(
            all.iter().map(|of| (of.name, of.current, of.unknown)).collect::<Vec<_>>(),
            [("checks", 2, 0), ("bench", 1, 0), ("old", 0, 1)]
        );
        report(&all, true).expect("timings of unknown sources are listed alone");

        // one character of a kernel's text has another key
        let changed = read_keys(&TODAY.replace("bbbb4567", "cccc4567")).expect("keys");
        let all = sources(&sections, &changed);
        assert_eq!((all[0].current, all[0].stale), (1, 1));
        report(&all, false).expect("a list");
        let error = report(&all, true).expect_err("stale").to_string();
        assert!(error.contains("checks (stale)") && !error.contains("bench"), "{error}");
    }

    #[test]
    fn strict_fails_for_checks_of_unknown_sources() {
        let sections = [section("checks", vec![json!({"cases": 3, "passed": 3})])];
        let all = sources(&sections, &BTreeSet::new());
        report(&all, false).expect("a list");
        assert!(report(&all, true).expect_err("unknown").to_string().contains("without keys"));
    }

    #[test]
    fn records_of_unknown_devices_have_no_keys_of_today() {
        let mut sections = recorded();
        assert_eq!(archs(&sections).expect("known"), BTreeSet::from(["sm_90a"]));
        sections[0].about.insert("device".to_owned(), "NVIDIA B300".into());
        assert!(archs(&sections).is_err());
        assert!(archs(&sections[2..]).expect("no keys").is_empty());
    }
}
