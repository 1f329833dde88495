//! Mutants of Rust: the change is made in a copy of the working tree, which is built in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use xshell::{Shell, cmd};

use super::list::{Killer, Mutant, failed_test};
use crate::{nvrtc, paths::target_dir};

/// Arguments of `cargo test` for a file of a folder, in the order in which they are tried.
const SUITES: [(&str, &[&str]); 6] = [
    ("serving/cache/", &["-p attn-cache", "-p attn-tests --test garbage"]),
    ("attn-core/src/batch/", &["-p attn-core --lib --tests", PLANS]),
    ("attn-core/src/plan/", &["-p attn-core --lib --tests", PLANS, EMULATED]),
    ("attn-kernels/src/splice/", &["-p attn-kernels --lib", LANGUAGE, EMULATED, "-p attn-kernels"]),
    ("attn-macros/codegen/", &["-p attn-codegen", LANGUAGE]),
    ("src/", &["-p attn-tests --test serving -- graph::", "-p attn-rs"]),
];
const PLANS: &str = "-p attn-tests --test kernels --test plan --test serving -- cpu:: update:: device_plan:: graph:: \
                     partial:: per_request:: cascade::";
const EMULATED: &str = "-p attn-tests --test kernels -- decode_emulated:: prefill_sm80_emulated:: mixed_emulated:: \
                        prefill_sm90_emulated:: cuda_cores_emulated::";
const LANGUAGE: &str = "-p attn-tests --test language --test variants -- host_diff:: composition:: bounds:: slopes:: \
                        tables:: bias_rows:: tiles_of_masks:: fuzz:: snapshots::";

/// A copy of the working tree.
pub(super) struct Tree<'a> {
    root: &'a Path,
    folder: PathBuf,
    build: PathBuf,
    nvrtc: PathBuf,
}

/// Copies what git knows of the working tree, at first with its times: what is built for it need not be built again.
pub(super) fn tree<'a>(sh: &Shell, root: &'a Path) -> Result<Tree<'a>> {
    let target = target_dir(root)?;
    let nvrtc = nvrtc::ensure(sh, &target)?;
    let (folder, build) = (target.join("mutants/tree"), target.join("mutants/build"));
    let files = cmd!(sh, "git ls-files --cached --others --exclude-standard").quiet().read()?;
    let files: Vec<&str> = files.lines().filter(|file| root.join(file).is_file()).collect();
    if folder.exists() {
        // what is changed there is built again, also where a mutant was left
        for file in files {
            update(&root.join(file), &folder.join(file))?;
        }
    } else {
        fs::create_dir_all(&folder)?;
        for files in files.chunks(500) {
            cmd!(sh, "cp --preserve=all --parents {files...} {folder}").quiet().run()?;
        }
    }
    if !build.join("debug").exists() {
        fs::create_dir_all(&build)?;
        let built = target.join("debug");
        cmd!(sh, "cp --archive {built} {build}").quiet().run()?;
    }
    Ok(Tree { root, folder, build, nvrtc })
}

/// Copies a file whose copy differs, with a new time.
fn update(from: &Path, to: &Path) -> Result<()> {
    let content = fs::read(from)?;
    if fs::read(to).is_ok_and(|copy| copy == content) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
    Ok(fs::write(to, content)?)
}

impl Tree<'_> {
    /// The first test that fails with a mutant. One that does not compile is an error.
    pub(super) fn killer(&self, sh: &Shell, mutant: &Mutant) -> Result<Option<Killer>> {
        let Mutant { name, file, old, new, .. } = mutant;
        let suites = SUITES.iter().find(|(folder, _)| file.starts_with(folder));
        let (_, suites) = suites.with_context(|| format!("{name}: no tests are known for {file}"))?;
        let (source, copy) = (self.root.join(file), self.folder.join(file));
        fs::write(&copy, fs::read_to_string(&source)?.replace(old, new))?;
        let killer = suites.iter().find_map(|suite| self.fails(sh, name, suite).transpose()).transpose();
        update(&source, &copy)?;
        killer
    }

    /// What fails of a suite; the first program with a failure is the last that runs.
    fn fails(&self, sh: &Shell, name: &str, suite: &str) -> Result<Option<Killer>> {
        let (programs, modules) = suite.split_once(" -- ").unwrap_or((suite, ""));
        let cargo = |last: &str| {
            let _folder = sh.push_dir(&self.folder);
            let words = [programs, last].into_iter().flat_map(str::split_whitespace);
            let command = cmd!(sh, "cargo test {words...}").env("CARGO_TARGET_DIR", &self.build);
            let command = command.env("ATTN_CACHE_DIR", self.build.join("test-cache")).env("ATTN_NVRTC", &self.nvrtc);
            command.quiet().ignore_status().output()
        };
        let built = cargo("--no-run")?;
        ensure!(built.status.success(), "{name} does not compile: {}", String::from_utf8_lossy(&built.stderr));
        let ran = cargo(&format!("-- {modules}"))?;
        if ran.status.success() {
            return Ok(None);
        }
        let messages = String::from_utf8_lossy(&ran.stderr);
        // "error: test failed, to rerun pass `-p attn-core --lib`"
        let program = messages.lines().find_map(|line| line.split("to rerun pass `").nth(1)?.strip_suffix('`'));
        let program = program.with_context(|| format!("{name}: cargo fails: {messages}"))?;
        let program = program.strip_prefix("-p attn-tests --test ").unwrap_or(program);
        let output = String::from_utf8_lossy(&ran.stdout);
        let test = output.lines().find_map(failed_test).map(str::to_owned);
        Ok(Some(Killer { program: program.trim_start_matches("-p ").to_owned(), test }))
    }
}
