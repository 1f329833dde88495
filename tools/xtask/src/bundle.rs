//! `cargo xtask gpu-bundle`: what a machine with a GPU, a driver and nothing else needs.

mod c;
mod files;
mod programs;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use xshell::{Shell, cmd};

use files::{make_executable, size};

use crate::paths::{jsonl_files, target_dir};
use crate::{aot, nvrtc};

/// Bytes that the folder may have: machines with a GPU accept archives up to this size.
const LIMIT: u64 = 32 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Architectures to compile cubins for.
    #[arg(long, default_value = "sm_90a")]
    arch: String,
    /// Further case files, beside those of benches/cases.
    #[arg(long, value_name = "FILE")]
    cases: Vec<PathBuf>,
    /// Bundles the command that has the variants of the catalogue too, and a case for each of its rows.
    #[arg(long)]
    catalogue: bool,
    /// Leaves the cubins out: the machine then needs NVRTC.
    #[arg(long)]
    no_cubins: bool,
    /// Bundles test programs instead, in target/gpu-tests: those that need a GPU, and a script that runs them.
    #[arg(long)]
    tests: bool,
    /// Bundles C programs instead, in target/gpu-c: the tests of attn-c and its benchmark, and a script that runs them.
    #[arg(long, conflicts_with = "tests")]
    c: bool,
    /// With --tests: only this test program, such as ops.
    #[arg(long, value_name = "NAME", requires = "tests")]
    only: Vec<String>,
}

/// The grids of the `attn` command, which become case files.
const GRIDS: [&str; 5] = ["check", "dims", "small", "serving", "counting"];
/// Case files whose kernels exceed [`LIMIT`]: the cases go in, and their kernels are compiled on the machine.
const COMPILED_THERE: [&str; 2] = ["serving.jsonl", "counting.jsonl"];

const RUN: &str = r#"#!/usr/bin/env bash
# attn, with the cubins that the case files beside it need: ./run.sh check cases/check.jsonl
here="$(cd "$(dirname "$0")" && pwd)"
if [[ -z ${ATTN_CACHE_DIR:-} && -d $here/cache ]]; then
  # what others may write to is not used as a cache; an archive may come with any owner and mode
  export ATTN_CACHE_DIR="$here/cache"
  if [[ ! -O $here/cache ]]; then
    ATTN_CACHE_DIR="$here/cache.$UID"
    [[ -d $ATTN_CACHE_DIR ]] || cp -r "$here/cache" "$ATTN_CACHE_DIR"
  fi
  chmod -R go-w "$ATTN_CACHE_DIR"
fi
exec "$here/attn" "$@"
"#;

/// Builds the folder `target/gpu-bundle`.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let target = target_dir(root)?;
    if args.c {
        return c::run(sh, root, &target);
    }
    if args.tests {
        return programs::run(sh, root, &target, &args.only);
    }
    let bundle = target.join("gpu-bundle");
    sh.remove_path(&bundle)?;
    sh.create_dir(bundle.join("cases"))?;

    // `-C strip` for the last crate alone: the other artefacts of a release build stay valid
    let built = if args.catalogue {
        cmd!(sh, "cargo rustc --release -p attn-tests --features cuda --bin attn-catalogue -- -C strip=symbols")
            .run()?;
        "attn-catalogue"
    } else {
        cmd!(sh, "cargo rustc --release -p attn-cli --bin attn -- -C strip=symbols").run()?;
        "attn"
    };
    let attn = bundle.join("attn");
    fs::copy(target.join("release").join(built), &attn).context("copying the binary")?;

    let cases = write_cases(sh, root, args, &attn, &bundle.join("cases"))?;
    copy_baselines(&root.join("benches/baselines"), &bundle.join("baselines"))?;
    if !args.no_cubins {
        compile_cubins(sh, &target, args, &attn, &cases, &bundle.join("cache"))?;
    }

    let script = bundle.join("run.sh");
    fs::write(&script, RUN)?;
    make_executable(&script)?;

    let bytes = size(&bundle)?;
    println!("{}: {:.1} MB", bundle.display(), bytes as f64 / 1e6);
    if let Some(version) = newest_glibc(&fs::read(&attn)?) {
        println!("needs glibc 2.{version} or newer");
    }
    if bytes > LIMIT {
        bail!("the bundle has {bytes} bytes, more than {LIMIT}; fewer cases, or --no-cubins");
    }
    Ok(())
}

/// Writes the case files: those of the grids, of the catalogue if it is bundled, of `benches/cases` and of the caller.
fn write_cases(sh: &Shell, root: &Path, args: &Args, attn: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    let mut cases = Vec::new();
    let mut write = |name: &str, lines: String| -> Result<()> {
        let file = to.join(format!("{name}.jsonl"));
        fs::write(&file, lines).with_context(|| file.display().to_string())?;
        cases.push(file);
        Ok(())
    };
    if args.catalogue {
        write("catalogue", cmd!(sh, "{attn} cases").read().context("writing the cases of the catalogue")?)?;
    }
    for grid in GRIDS {
        let lines = cmd!(sh, "{attn} check --grid {grid} --list --json").read();
        write(grid, lines.with_context(|| format!("writing the cases of the grid {grid}"))?)?;
    }
    for path in jsonl_files(&root.join("benches/cases"))?.iter().chain(&args.cases) {
        if path.extension().is_some_and(|x| x == "jsonl") {
            let file = to.join(path.file_name().context("a case file has a name")?);
            fs::copy(path, &file).with_context(|| path.display().to_string())?;
            cases.push(file);
        }
    }
    Ok(cases)
}

/// Copies the Python programs that run the baselines.
fn copy_baselines(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let file = entry?.path();
        if let Some(name) = file.file_name().filter(|_| file.extension().is_some_and(|x| x == "py")) {
            fs::copy(&file, to.join(name)).with_context(|| file.display().to_string())?;
        }
    }
    Ok(())
}

/// Compiles the kernels of the cases, and copies their cubins to the folder `to`. The cache beside the bundle outlives
/// it, so that the next bundle compiles what is new alone.
fn compile_cubins(sh: &Shell, target: &Path, args: &Args, attn: &Path, cases: &[PathBuf], to: &Path) -> Result<()> {
    let nvrtc = nvrtc::ensure(sh, target)?;
    let _nvrtc = sh.push_env("ATTN_NVRTC", &nvrtc);
    let cache = target.join("gpu-bundle-cubins");
    let _cache = sh.push_env("ATTN_CACHE_DIR", &cache);
    let arch = &args.arch;
    let compiled = cases.iter().filter(|path| !COMPILED_THERE.iter().any(|name| path.ends_with(name)));
    let files = compiled.flat_map(|file| [OsString::from("--cases"), file.clone().into()]);
    let lines = cmd!(sh, "{attn} compile --json --arch {arch}").args(files).read();
    copy_used(&lines.context("compiling the cubins of the cases")?, &cache, to)
}

/// Copies the cache entries that `attn compile --json` names by `key`: every file whose name starts with the key.
fn copy_used(lines: &str, from: &Path, to: &Path) -> Result<()> {
    let keys: BTreeSet<String> =
        aot::records(lines)?.iter().filter_map(|record| record["key"].as_str().map(str::to_owned)).collect();
    let mut copied = 0;
    let mut folders = vec![from.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if keys.iter().any(|key| name.starts_with(key.as_str())) {
                let below = to.join(path.strip_prefix(from)?);
                fs::create_dir_all(below.parent().context("a file lies in a folder")?)?;
                fs::copy(&path, &below)?;
                copied += 1;
            }
        }
    }
    if copied < keys.len() {
        bail!("{} cubins were compiled and only {copied} files are in the cache {}", keys.len(), from.display());
    }
    Ok(())
}

/// The newest `GLIBC_2.N` that a binary asks for.
fn newest_glibc(binary: &[u8]) -> Option<u32> {
    let mark = b"GLIBC_2.";
    binary
        .windows(mark.len())
        .enumerate()
        .filter(|(_, w)| w == mark)
        .filter_map(|(at, _)| {
            let digits: String =
                binary[at + mark.len()..].iter().map(|&b| b as char).take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::newest_glibc;

    #[test]
    fn the_newest_symbol_version_is_found() {
        assert_eq!(newest_glibc(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0"), Some(34));
        assert_eq!(newest_glibc(b"static"), None);
    }
}
