//! `cargo xtask test`.

use std::path::Path;

use anyhow::{Result, bail};
use attn_needs::Need;
use xshell::{Shell, cmd};

use crate::{
    aot, browser, mutants, nvrtc,
    paths::{UNOPTIMISED, target_dir},
    plan_instructions, py, skips,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Do not stop at the first step that fails.
    #[arg(long)]
    keep_going: bool,
    /// Also runs the tests that take minutes each: every variant for every architecture, the catalogue's kernels, all
    /// emulated kernels, and their mutants.
    #[arg(long)]
    all: bool,
    /// Passed on to the main test run (for example a test's name).
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs every step, and names those that fail at the end.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let nvrtc = nvrtc::ensure(sh, &target_dir(root)?)?;
    eprintln!("xtask: NVRTC is {}", nvrtc.display());
    let _nvrtc = sh.push_env("ATTN_NVRTC", &nvrtc);
    // tests use their own cache, never the user's
    let cache = target_dir(root)?.join("test-cache");
    let _cache = sh.push_env("ATTN_CACHE_DIR", &cache);

    if let Err(error) = browser::ensure(sh) {
        // the tests that need it fail, and others run
        eprintln!("xtask: {error:#}");
    }
    // what is provided here is required, and what a runner of CI can install
    let required = required();
    let words: Vec<&str> = required.iter().map(|need| need.word()).collect();
    let _required = sh.push_env("ATTN_TEST_REQUIRE", words.join(","));
    let skips = target_dir(root)?.join("test-skips");
    skips::forget(&skips)?;
    let _skips = sh.push_env("ATTN_TEST_SKIPS", &skips);

    let rest = &args.rest;
    let runner: &[&str] = if cmd!(sh, "cargo nextest --version").quiet().ignore_stdout().ignore_stderr().run().is_ok() {
        &["nextest", "run"]
    } else {
        eprintln!("xtask: cargo-nextest is not installed (`cargo install cargo-nextest --locked`); using `cargo test`");
        &["test", "--lib", "--bins", "--tests"]
    };
    // Without `inventory`, variants are registered by tables and calls alone.
    let bare = ["-p", "attn-core", "-p", "attn-variants", "--no-default-features", "--config", UNOPTIMISED];
    // Without the names `default`, host and target have more crates in common; members ask for what tests need.
    let all = ["--workspace", "--no-default-features"];
    let steps: [(&str, Vec<&str>); 3] = [
        ("doctests", [&["test", "--doc"], &all[..]].concat()),
        ("tests without inventory", [runner, &bare].concat()),
        ("tests", [runner, &all].concat()),
    ];
    let mut failed = Vec::new();
    for (name, words) in &steps {
        eprintln!("xtask: {name}");
        let mut step = cmd!(sh, "cargo {words...}");
        if *name == "tests" {
            step = match (args.all, runner) {
                (false, _) => step,
                (true, ["nextest", ..]) => step.args(["--run-ignored", "all"]),
                (true, _) => step.args(["--", "--include-ignored"]),
            };
            step = step.args(rest);
        }
        if step.run().is_err() {
            failed.push(*name);
            if !args.keep_going {
                break;
            }
        }
    }
    // skipped when the caller names tests
    if (failed.is_empty() || args.keep_going) && rest.is_empty() {
        eprintln!("xtask: kernels embedded ahead of time");
        if let Err(error) = aot::run(sh, &target_dir(root)?) {
            eprintln!("xtask: {error:#}");
            failed.push("kernels embedded ahead of time");
        }
        eprintln!("xtask: the Python wheel");
        if let Err(error) = py::test(sh, root, &required) {
            eprintln!("xtask: {error:#}");
            failed.push("the Python wheel");
        }
        if args.all {
            eprintln!("xtask: mutants");
            if let Err(error) = mutants::run(sh, root, &mutants::Args::default()) {
                eprintln!("xtask: {error:#}");
                failed.push("mutants");
            }
        }
        eprintln!("xtask: instructions of planning");
        if let Err(error) = plan_instructions::test(sh, root, &required) {
            eprintln!("xtask: {error:#}");
            failed.push("instructions of planning");
        }
    }
    eprintln!("xtask: {}", skips::summary(&skips)?);
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// What tests may not be skipped for: what `ATTN_TEST_REQUIRE` names already, and what was ensured.
fn required() -> Vec<Need> {
    let ensured = [Need::Nvrtc, Need::Cxx];
    let of_ci = [Need::Model, Need::Browser, Need::Pip].into_iter().filter(|_| std::env::var_os("CI").is_some());
    let mut required = attn_needs::required();
    let further: Vec<Need> = ensured.into_iter().chain(of_ci).filter(|need| !required.contains(need)).collect();
    required.extend(further);
    required
}
