//! `cargo xtask costs`: writes the cost table of `attn-kernels` from what `attn calibrate` measured.
//!
//! A file `attn-kernels/costs/ARCH.jsonl` has lines `{"about": {..}}`, which name device, commit and date of the rows
//! that follow, and rows.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::paths::jsonl_files;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Changes nothing; fails when the table differs from its files.
    #[arg(long)]
    check: bool,
}

const TABLE: &str = "attn-kernels/src/cost/table.rs";
const HEAD: &str = "//! Made by `cargo xtask costs` of `costs/*.jsonl`; not to be edited.

use attn_core::spec::KernelKind;

use super::{
    HookClass,
    measured::{Measured, cuda_cores, row, sm90},
};

/// Architecture, kernel, rows of a tile, bits of an element of K and V, head_dim, hooks, CTAs of an SM;
/// in nanoseconds: launch, item, block, first, merge_launch, merge.
#[rustfmt::skip]
pub(super) const TABLE: &[Measured] = &[
";

/// Writes, or checks, the table.
pub(crate) fn run(root: &Path, args: &Args) -> Result<()> {
    let mut text = HEAD.to_owned();
    for path in jsonl_files(&root.join("attn-kernels/costs"))? {
        text += &rows(&fs::read_to_string(&path)?).with_context(|| path.display().to_string())?;
    }
    text += "];\n";
    let path = root.join(TABLE);
    if fs::read_to_string(&path).unwrap_or_default() == text {
        println!("{TABLE}: equals its files");
    } else if args.check {
        bail!("{TABLE}: differs from attn-kernels/costs; run `cargo xtask costs`");
    } else {
        fs::write(&path, text)?;
        println!("{TABLE}: written");
    }
    Ok(())
}

/// The rows of a file as Rust.
fn rows(lines: &str) -> Result<String> {
    let mut out = String::new();
    let mut arch_of_rows = Option::<u64>::None;
    for (at, line) in lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line).with_context(|| format!("line {}", at + 1))?;
        let in_line = || format!("line {}", at + 1);
        if let Some(about) = value.get("about") {
            let field = |name: &str| about[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            let [arch, device, commit, date] = ["arch", "device", "commit", "date"]
                .map(|name| field(name).with_context(|| format!("`about` has no {name}")));
            let arch = arch.with_context(in_line)?;
            let digits = arch.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_alphabetic());
            arch_of_rows = Some(digits.parse::<u64>().with_context(in_line)?);
            let (device, commit, date) = (device?, commit?, date?);
            writeln!(out, "    // {arch}: {device}, {date}, commit {commit}")?;
            continue;
        }
        let arch = arch_of_rows.with_context(|| format!("{}: a row before any `about`", in_line()))?;
        let number = |name: &str| value[name].as_u64().with_context(|| format!("{}: no number {name}", in_line()));
        let word = |name: &str, words: &[(&str, &'static str)]| {
            let found = words.iter().find(|(word, _)| value[name] == *word);
            found.map(|(_, rust)| *rust).with_context(|| format!("{}: {name} is {}", in_line(), value[name]))
        };
        let kind = word("kernel", &[("decode", "KernelKind::Decode"), ("prefill", "KernelKind::Prefill")])?;
        let bits = word("kv", &[("8-bit", "8"), ("16-bit", "16"), ("32-bit", "32")])?;
        let classes =
            [("none", "HookClass::None"), ("logits", "HookClass::Logits"), ("rewrites", "HookClass::Rewrites")];
        let hooks = word("hooks", &classes)?;
        let [rows, head_dim, ctas] = ["rows", "head_dim", "ctas_per_sm"].map(number);
        let costs = ["launch", "item", "block", "first", "merge_launch", "merge"].map(number);
        let costs: Vec<String> = costs.into_iter().map(|cost| Ok(cost?.to_string())).collect::<Result<_>>()?;
        let (rows, head_dim, ctas, costs) = (rows?, head_dim?, ctas?, costs.join(", "));
        let row = format!("row({arch}, {kind}, {rows}, {bits}, {head_dim}, {hooks}, {ctas}, [{costs}])");
        match value.get("backend") {
            None => writeln!(out, "    {row},")?,
            Some(_) => {
                let backend = word("backend", &[("sm90", "sm90"), ("cuda-cores", "cuda_cores")])?;
                writeln!(out, "    {backend}({row}),")?;
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::rows;

    const ABOUT: &str = r#"{"about": {"arch": "sm_120", "device": "D", "commit": "c", "date": "2026-01-01"}}"#;
    const ROW: &str = concat!(
        r#"{"kernel": "decode", "rows": 8, "kv": "8-bit", "head_dim": 64, "hooks": "logits", "ctas_per_sm": 1, "#,
        r#""launch": 1, "item": 2, "block": 3, "first": 4, "merge_launch": 5, "merge": 6, "off": 0.1}"#,
    );

    #[test]
    fn rows_name_their_device_and_commit() {
        let text = rows(&format!("{ABOUT}\n\n{ROW}\n")).expect("sound");
        assert_eq!(
            text,
            "    // sm_120: D, 2026-01-01, commit c\n    \
             row(120, KernelKind::Decode, 8, 8, 64, HookClass::Logits, 1, [1, 2, 3, 4, 5, 6]),\n"
        );
    }

    #[test]
    fn missing_fields_are_named_with_their_line() {
        let error = |text: &str| format!("{:#}", rows(text).expect_err("not sound"));
        assert!(error(ROW).contains("line 1: a row before any"));
        assert!(error(&ABOUT.replace("commit", "comit")).contains("no commit"));
        let row = |from: &str, to: &str| error(&format!("{ABOUT}\n{}", ROW.replace(from, to)));
        assert!(row("8-bit", "4-bit").contains("line 2: kv is \"4-bit\""));
        assert!(row("\"item\": 2", "\"item\": -2").contains("line 2: no number item"));
    }
}
