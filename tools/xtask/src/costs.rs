//! `cargo xtask costs`: writes the cost table of `attn-kernels` from what `attn calibrate` measured.
//!
//! A file `attn-kernels/costs/ARCH.jsonl` has lines `{"about": {..}}`, which name device, commit and date of the rows
//! that follow, and rows.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result, bail};
use attn_kernels::cost::{CostTable, Costs, Measured};
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
        text += &rows(&path)?;
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

/// The rows of a file as Rust, each after the device, commit and date that the file has for it.
fn rows(path: &Path) -> Result<String> {
    let costs = CostTable::load(path)?;
    let mut rows = costs.loaded().iter();
    let mut out = String::new();
    for (at, line) in fs::read_to_string(path)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line)?;
        match value.get("about") {
            Some(about) => out += &comment(about).with_context(|| format!("{}, line {}", path.display(), at + 1))?,
            None => writeln!(out, "    {},", rust(rows.next().context("a row for each line that is not `about`")?))?,
        }
    }
    Ok(out)
}

/// The comment before the rows of a device.
fn comment(about: &Value) -> Result<String> {
    let field = |name: &str| {
        let text = about[name].as_str().filter(|text| !text.is_empty());
        text.with_context(|| format!("`about` has no {name}"))
    };
    let [arch, device, date, commit] = ["arch", "device", "date", "commit"].map(field);
    Ok(format!("    // {}: {}, {}, commit {}\n", arch?, device?, date?, commit?))
}

/// A row as the call that makes it.
fn rust(row: &Measured) -> String {
    let Measured { major, minor, kind, sm90, cuda_cores, rows, kv_bits, head_dim, hooks, costs } = row;
    let Costs { launch, item, block, first, merge_launch, merge, ctas_per_sm } = costs;
    let row = format!(
        "row({}, KernelKind::{kind:?}, {rows}, {kv_bits}, {head_dim}, HookClass::{hooks:?}, {ctas_per_sm}, \
         [{launch}, {item}, {block}, {first}, {merge_launch}, {merge}])",
        10 * major + minor
    );
    match (sm90, cuda_cores) {
        (true, _) => format!("sm90({row})"),
        (_, true) => format!("cuda_cores({row})"),
        _ => row,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use anyhow::Result;

    const ABOUT: &str = r#"{"about": {"arch": "sm_120", "device": "D", "commit": "c", "date": "2026-01-01"}}"#;
    const ROW: &str = concat!(
        r#"{"kernel": "decode", "rows": 8, "kv": "8-bit", "head_dim": 64, "hooks": "logits", "ctas_per_sm": 1, "#,
        r#""launch": 1, "item": 2, "block": 3, "first": 4, "merge_launch": 5, "merge": 6, "off": 0.1}"#,
    );

    fn rows(text: &str) -> Result<String> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(&file, text)?;
        super::rows(file.path())
    }

    #[test]
    fn rows_name_their_device_and_commit() {
        let on_cuda_cores = ROW.replace("\"rows\": 8", "\"backend\": \"cuda-cores\", \"rows\": 8");
        let other = ABOUT.replace("sm_120", "sm_90");
        let text = rows(&format!("{ABOUT}\n\n{ROW}\n{other}\n{on_cuda_cores}\n")).expect("sound");
        assert_eq!(
            text,
            "    // sm_120: D, 2026-01-01, commit c\n    \
             row(120, KernelKind::Decode, 8, 8, 64, HookClass::Logits, 1, [1, 2, 3, 4, 5, 6]),\n    \
             // sm_90: D, 2026-01-01, commit c\n    \
             cuda_cores(row(90, KernelKind::Decode, 8, 8, 64, HookClass::Logits, 1, [1, 2, 3, 4, 5, 6])),\n"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let error = |text: &str| format!("{:#}", rows(text).expect_err("not sound"));
        assert!(error(ROW).contains("line 1: `arch` is missing"));
        assert!(
            error(&format!("{}\n{ROW}", ABOUT.replace("commit", "comit"))).contains("line 1: `about` has no commit")
        );
        let row = |from: &str, to: &str| error(&format!("{ABOUT}\n{}", ROW.replace(from, to)));
        assert!(row("8-bit", "4-bit").contains("line 2: `kv` is \"4-bit\""));
    }
}
