//! `cargo xtask py`: the Python wheel, built by maturin and tested in a fresh environment.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use attn_needs::Need;
use xshell::{Shell, cmd};

use crate::paths::{UNOPTIMISED, target_dir};
use crate::wheel::{Program, python};

/// maturin.
pub(crate) const MATURIN: Program = Program {
    name: "maturin",
    version: "1.16.0",
    variable: "MATURIN",
    wheel: "maturin==1.16.0 \
    --hash=sha256:837db2f4d93d4899c3ac393fb3cc9eebf35b6002336e5d574f4a4fb6c49fe283 \
    --hash=sha256:e285ec9eb10243d45d10417178cb2eb76e0cbb184d0aa4378b503489fa12ee78 \
    --hash=sha256:131fcc17ddb3ccc48aa183d2172ebf994c322b858e1b9694fb8744d783df66f6 \
    --hash=sha256:2216d731c9324869d3bff72c0c73009bb6e640b3fa7d340174ae70dc874d1d9f \
    --hash=sha256:9d43a2adf51a2794e907a8f7dbad06eb114d5edb0909c73c1fa9040f15e584e9\n",
};

/// What the tests need beside the wheel.
const PACKAGES: [&str; 2] = ["numpy>=2", "pytest>=8"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Makes a folder for a machine with a GPU instead: the wheel, optimised, with tests and benchmarks.
    #[arg(long)]
    bundle: Option<PathBuf>,
}

/// Builds the wheel and tests it, or makes the folder.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let target = target_dir(root)?;
    let Some(bundle) = &args.bundle else { return tests(sh, root, &target) };
    let bundle = std::path::absolute(bundle)?;
    let wheel = build(sh, root, &target, &bundle, &["--release"])?;
    for folder in ["tests", "benches"] {
        let (from, to) = (root.join("bindings/python").join(folder), bundle.join(folder));
        copy(&from, &to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    }
    println!("{}", wheel.display());
    Ok(())
}

/// The step of `cargo xtask test`; without pip it is skipped.
pub(crate) fn test(sh: &Shell, root: &Path, required: &[Need]) -> Result<()> {
    let python = python();
    let found = cmd!(sh, "{python} -m pip --version").quiet().ignore_stdout().ignore_stderr().run();
    match found {
        Err(error) if required.contains(&Need::Pip) => Err(error).context("the Python wheel needs pip"),
        Err(error) => {
            eprintln!("xtask: the Python wheel is not tested: {error}");
            attn_needs::skipped(Need::Pip, "attn-py");
            Ok(())
        }
        Ok(()) => tests(sh, root, &target_dir(root)?),
    }
}

/// Builds the wheel as the tests are built, installs it in a fresh environment, and runs pytest there.
fn tests(sh: &Shell, root: &Path, target: &Path) -> Result<()> {
    let folder = target.join("py");
    // what is optimised would take a minute, which these tests do not save
    let wheel = build(sh, root, target, &folder.join("wheels"), &["--config", UNOPTIMISED])?;
    let (venv, python) = (folder.join("venv"), python());
    cmd!(sh, "{python} -m venv --clear {venv}").run()?;
    let python = [venv.join("bin/python"), venv.join("Scripts/python.exe")].into_iter().find(|path| path.exists());
    let python = python.with_context(|| format!("no python below {}", venv.display()))?;
    let quiet = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:"];
    cmd!(sh, "{python} -m pip install {quiet...} {wheel} {PACKAGES...}").run()?;
    // not from the folder of the sources, whose package has no native module
    let [tests, of_vllm] = ["python", "vllm"].map(|of| root.join("bindings").join(of).join("tests"));
    let cache = folder.join("pytest");
    let cache = format!("cache_dir={}", cache.display());
    let output = cmd!(sh, "{python} -m pytest {tests} {of_vllm} -q -rs -o {cache}").ignore_status().output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    for test in skipped(&text) {
        let need = if test.ends_with("no CUDA device") { Need::Gpu } else { Need::Torch };
        attn_needs::skipped(need, &format!("attn-py {test}"));
    }
    if output.status.success() { Ok(()) } else { bail!("tests of attn-py failed") }
}

/// The tests that pytest skipped.
fn skipped(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("SKIPPED ")?.split_once("] ").map(|(_, test)| test))
}

/// Builds the wheel into a folder, which has no other then.
fn build(sh: &Shell, root: &Path, target: &Path, to: &Path, how: &[&str]) -> Result<PathBuf> {
    let (maturin, manifest) = (MATURIN.ensure(sh, target)?, root.join("bindings/python/Cargo.toml"));
    fs::create_dir_all(to)?;
    for old in wheels(to)? {
        fs::remove_file(old)?;
    }
    let _here = sh.push_dir(root);
    let python = python();
    cmd!(
        sh,
        "{maturin} build --locked --quiet --manifest-path {manifest} --out {to} --compatibility linux
         --interpreter {python} {how...}"
    )
    .run()?;
    wheels(to)?.pop().with_context(|| format!("maturin wrote no wheel to {}", to.display()))
}

fn wheels(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|end| end == "whl")).collect())
}

/// Copies the Python files of a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "__pycache__" {
            copy(&path, &to.join(name))?;
        } else if path.extension().is_some_and(|end| end == "py") {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn skips_of_pytest_are_named() {
        let text = "..s [100%]\nSKIPPED [1] bindings/python/tests/test_torch.py:11: could not import 'torch'\n\
                    2 passed, 1 skipped";
        let names: Vec<&str> = super::skipped(text).collect();
        assert_eq!(names, ["bindings/python/tests/test_torch.py:11: could not import 'torch'"]);
    }
}
