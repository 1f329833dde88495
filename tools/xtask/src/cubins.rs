//! `cargo xtask cubins`: prints two hashes of every cubin of the compile matrix, and compares them with another
//! commit's.
//!
//! The first hash is of what a GPU executes: instructions, constants, registers, spills, shared memory. The second is
//! of the whole file, in which the names of constants and kernels stand too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use xshell::{Shell, cmd};

use crate::{nvrtc, paths::target_dir};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the kernels whose label contains this text, or one of several: `decode sm_90a` or `decode sm|mixed`.
    filter: Option<String>,
    /// Only every n-th kernel.
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: usize,
    /// Compares with the hashes in this file, which another commit's `cargo xtask cubins` printed; fails where a
    /// kernel's code differs.
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
}

/// The two hashes of a cubin.
#[derive(PartialEq, Eq)]
struct Hashes<'a> {
    code: &'a str,
    file: &'a str,
}

/// Compiles, prints and compares.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let target = target_dir(root)?;
    let nvrtc = nvrtc::ensure(sh, &target)?;
    let out = target.join("cubins.txt");
    let filter = args.filter.as_deref().unwrap_or_default();
    let test = ["--test", "compile", "--", "--ignored", "--exact", "compile_matrix::hashes::print_cubin_hashes"];
    cmd!(sh, "cargo test --quiet -p attn-kernels {test...}")
        .env("ATTN_NVRTC", nvrtc)
        .env("ATTN_CACHE_DIR", target.join("test-cache"))
        .env("ATTN_CUBIN_HASHES", &out)
        .env("ATTN_CUBIN_FILTER", filter)
        .env("ATTN_CUBIN_EVERY", args.every.to_string())
        .quiet()
        .ignore_stdout()
        .run()?;
    let text = fs::read_to_string(&out).with_context(|| out.display().to_string())?;
    let Some(path) = &args.compare else {
        print!("{text}");
        return Ok(());
    };
    let before = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    compare(&read(&before)?, &read(&text)?)
}

/// The hashes by the label of the kernel.
fn read(text: &str) -> Result<BTreeMap<&str, Hashes<'_>>> {
    text.lines()
        .map(|line| {
            let mut words = line.split('\t');
            match (words.next(), words.next(), words.next()) {
                (Some(label), Some(code), Some(file)) => Ok((label, Hashes { code, file })),
                _ => bail!("not a line of `cargo xtask cubins`: {line}"),
            }
        })
        .collect()
}

/// Prints how many kernels agree, and each one whose code differs.
fn compare(before: &BTreeMap<&str, Hashes<'_>>, after: &BTreeMap<&str, Hashes<'_>>) -> Result<()> {
    let both = || after.iter().filter_map(|(label, new)| before.get(label).map(|old| (label, old, new)));
    let (compared, same_file) = (both().count(), both().filter(|(_, old, new)| old == new).count());
    let differing: Vec<_> = both().filter(|(_, old, new)| old.code != new.code).map(|(label, ..)| label).collect();
    println!(
        "{compared} kernels compared: {same_file} are the same file, {} the same code",
        compared - differing.len()
    );
    println!("not compared: {} only now, {} only in the file", after.len() - compared, before.len() - compared);
    for label in &differing {
        println!("differs: {label}");
    }
    if differing.is_empty() { Ok(()) } else { bail!("the code of {} kernels differs", differing.len()) }
}

#[cfg(test)]
mod tests {
    use super::{compare, read};

    #[test]
    fn a_renamed_constant_passes_and_a_changed_instruction_fails() {
        let before = read("a\tcode\tfile\nb\tcode\tfile\n").expect("two lines");
        let renamed = read("a\tcode\tfile\nb\tcode\tother\n").expect("two lines");
        let changed = read("a\tcode\tfile\nb\tother\tother\n").expect("two lines");
        assert!(compare(&before, &renamed).is_ok());
        assert!(compare(&before, &changed).is_err());
        assert!(read("a line of something else").is_err());
    }
}
