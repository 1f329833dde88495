//! `cargo xtask plan-instructions`: counts the instructions of planning under valgrind's callgrind, and compares them
//! with the committed counts.
//!
//! Unlike times, counts do not depend on other load. They depend on the compiler, so that those of another one are of
//! no use: then the check fails, and a change of the toolchain comes with counts that were written under it.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use attn_needs::Need;
use serde_json::{Value, json};
use xshell::{Shell, cmd};

use crate::paths::target_dir;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Changes nothing; fails where a count is off by more than 2 %. This is the default.
    #[arg(long, conflicts_with = "write")]
    check: bool,
    /// Writes the counts.
    #[arg(long)]
    write: bool,
}

const FILE: &str = "benches/results/plan-instructions.jsonl";
/// The largest allowed difference of a count, in per cent.
const ALLOWED: u64 = 2;
/// A `rep movsb` counts every byte, and glibc uses it on some CPUs and not on others.
const NO_REP: &str = "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824";

/// Counts, and compares or writes.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let Some(valgrind) = valgrind(sh) else { bail!("valgrind is not installed (`apt-get install valgrind`)") };
    let rustc = cmd!(sh, "rustc --version").quiet().read()?;
    let path = root.join(FILE);
    if args.write {
        let counts = count(sh, root)?;
        let commit = cmd!(sh, "git rev-parse --short HEAD").quiet().read().unwrap_or_default();
        let method = "cargo xtask plan-instructions: instructions of one planning step of decode, 32/8 heads, on the \
                      host, in memory of the step before";
        let about = json!({ "about": { "method": method, "rustc": rustc, "valgrind": valgrind, "commit": commit } });
        let mut text = format!("{about}\n");
        for (case, instructions) in &counts {
            writeln!(text, "{}", json!({ "case": case, "instructions": instructions }))?;
            println!("{case}: {instructions}");
        }
        return fs::write(&path, text).with_context(|| path.display().to_string());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("{FILE}: make it with --write"))?;
    let (taken_with, wanted) = read(&text)?;
    check_comparable(&taken_with, &rustc, &wanted)?;
    let counts = count(sh, root)?;
    for (case, instructions) in &counts {
        println!("{case}: {instructions}, committed {}", wanted.get(case).copied().unwrap_or(0));
    }
    let off = compare(&wanted, &counts);
    if off.is_empty() {
        return Ok(());
    }
    bail!("{}\nif that is meant: `cargo xtask plan-instructions --write`", off.join("\n"))
}

/// The step of `cargo xtask test`: skipped where valgrind is not installed, unless it is required.
pub(crate) fn test(sh: &Shell, root: &Path, required: &[Need]) -> Result<()> {
    if valgrind(sh).is_none() && !required.contains(&Need::Valgrind) {
        eprintln!("xtask: instructions of planning are not counted: valgrind is not installed");
        return Ok(());
    }
    run(sh, root, &Args { check: true, write: false })
}

fn valgrind(sh: &Shell) -> Option<String> {
    cmd!(sh, "valgrind --version").quiet().ignore_stderr().read().ok()
}

/// The instructions of every case.
fn count(sh: &Shell, root: &Path) -> Result<BTreeMap<String, u64>> {
    cmd!(sh, "cargo build --release --quiet -p attn-benches --bin plan_once").quiet().run()?;
    let program = target_dir(root)?.join("release/plan_once");
    let names = cmd!(sh, "{program}").quiet().read()?;
    let _tunables = sh.push_env("GLIBC_TUNABLES", NO_REP);
    let mut counts = BTreeMap::new();
    for name in names.lines() {
        // `measured_plan` is a function of the program
        let tool = ["--tool=callgrind", "--toggle-collect=*measured_plan*", "--callgrind-out-file=/dev/null"];
        let output = cmd!(sh, "valgrind {tool...} {program} {name}").quiet().read_stderr()?;
        counts.insert(name.to_owned(), collected(&output).with_context(|| format!("{name}: {output}"))?);
    }
    Ok(counts)
}

/// The count that callgrind prints; `None` where the function was never entered.
fn collected(stderr: &str) -> Option<u64> {
    let line = stderr.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok().filter(|&count| count > 0)
}

/// Checks that counts can be compared: those of this compiler, and at least one.
fn check_comparable(taken_with: &str, rustc: &str, wanted: &BTreeMap<String, u64>) -> Result<()> {
    if taken_with != rustc {
        let version = taken_with.split_whitespace().nth(1).unwrap_or(taken_with);
        bail!(
            "{FILE} was taken with {taken_with}, and this is {rustc}: counts of two compilers cannot be compared.\n\
             under the toolchain of the counts: `cargo +{version} xtask plan-instructions`\n\
             where the toolchain changes: compare under the old one, then `cargo xtask plan-instructions --write` \
             under the new one, in the same commit"
        );
    }
    if wanted.is_empty() {
        bail!("{FILE} has no case, so that nothing is compared; make it with `cargo xtask plan-instructions --write`");
    }
    Ok(())
}

/// The compiler and the counts of a file.
fn read(text: &str) -> Result<(String, BTreeMap<String, u64>)> {
    let mut counts = BTreeMap::new();
    let mut rustc = None;
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).with_context(|| format!("{FILE}: {line}"))?;
        match (value["about"]["rustc"].as_str(), value["case"].as_str(), value["instructions"].as_u64()) {
            (Some(version), ..) => rustc = Some(version.to_owned()),
            (None, Some(case), Some(count)) => drop(counts.insert(case.to_owned(), count)),
            _ => bail!("{FILE}: {line}"),
        }
    }
    Ok((rustc.with_context(|| format!("{FILE}: no rustc in `about`"))?, counts))
}

/// The differences of more than [`ALLOWED`] per cent, in words.
fn compare(wanted: &BTreeMap<String, u64>, counts: &BTreeMap<String, u64>) -> Vec<String> {
    let mut off = Vec::new();
    for (case, &count) in counts {
        match wanted.get(case) {
            None => off.push(format!("{case}: not in {FILE}")),
            Some(&committed) => {
                if count.abs_diff(committed) * 100 > committed * ALLOWED {
                    let by = (count as f64 / committed.max(1) as f64 - 1.0) * 100.0;
                    off.push(format!("{case}: {count} instructions, {by:+.1} % of {committed}"));
                }
            }
        }
    }
    off.extend(wanted.keys().filter(|case| !counts.contains_key(*case)).map(|case| format!("{case}: no such case")));
    off
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_callgrind_is_read() {
        let text = "==1== Callgrind, a call-graph\n==1== Events    : Ir\n==1== Collected : 12345\n==1== \n";
        assert_eq!(collected(text), Some(12345));
        assert_eq!(collected(&text.replace("12345", "0")), None, "the function was not found");
        assert_eq!(collected("valgrind: no such program"), None);
    }

    #[test]
    fn differences_of_more_than_two_per_cent_are_reported() {
        let of = |pairs: &[(&str, u64)]| pairs.iter().map(|&(case, count)| (case.to_owned(), count)).collect();
        let wanted: BTreeMap<_, _> = of(&[("a", 1000), ("b", 1000), ("c", 1000), ("gone", 1)]);
        let off = compare(&wanted, &of(&[("a", 1020), ("b", 1021), ("c", 979), ("new", 5)]));
        assert_eq!(off.len(), 4, "{off:?}");
        assert!(off[0].starts_with("b: 1021") && off[1].contains("-2.1 %") && off[2].contains("new"), "{off:?}");
        assert!(off[3].starts_with("gone"));
        assert!(compare(&wanted, &wanted).is_empty());
    }

    #[test]
    fn nothing_to_compare_is_a_failure() {
        let counts = BTreeMap::from([("a".to_owned(), 7)]);
        let ours = "rustc 1.95.0 (f00 2026-01-01)";
        check_comparable(ours, ours, &counts).expect("the same compiler, and a case");
        let error = check_comparable(ours, "rustc 1.96.0 (ba2 2026-03-01)", &counts).expect_err("another compiler");
        let error = error.to_string();
        for words in ["1.96.0", "cannot be compared", "cargo +1.95.0 xtask", "--write"] {
            assert!(error.contains(words), "{words}: {error}");
        }
        let error = check_comparable(ours, ours, &BTreeMap::new()).expect_err("no case").to_string();
        assert!(error.contains("nothing is compared") && error.contains("--write"), "{error}");
        assert_eq!(compare(&counts, &BTreeMap::new()), ["a: no such case"], "the program counts nothing");
    }

    /// The committed counts are of the toolchain that `rust-toolchain.toml` pins, or a check compares nothing.
    #[test]
    fn the_committed_counts_are_of_the_pinned_toolchain() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace");
        let text = |file: &str| fs::read_to_string(root.join(file)).expect("a file of the repository");
        let (taken_with, wanted) = read(&text(FILE)).expect("sound");
        let pinned = text("rust-toolchain.toml");
        let pinned =
            pinned.lines().find_map(|line| line.strip_prefix("channel = ")).expect("a channel").trim_matches('"');
        assert!(taken_with.starts_with(&format!("rustc {pinned} ")), "{FILE} is of {taken_with}, not of {pinned}");
        assert!(!wanted.is_empty());
    }

    #[test]
    fn a_file_names_its_compiler() {
        let about = r#"{"about": {"rustc": "rustc 1"}}"#;
        let (rustc, counts) = read(&format!("{about}\n{{\"case\": \"a\", \"instructions\": 7}}\n")).expect("sound");
        assert_eq!((rustc.as_str(), counts["a"]), ("rustc 1", 7));
        read(r#"{"case": "a", "instructions": 7}"#).expect_err("no compiler");
        read(&format!("{about}\n{{\"case\": \"a\"}}")).expect_err("no count");
    }
}
