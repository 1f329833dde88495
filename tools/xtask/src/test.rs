//! `cargo xtask test`: what it builds and runs, with which requirements, and what it lists of skips.

mod programs;

use std::{path::Path, time::Instant};

use anyhow::{Result, bail};
use attn_needs::Need;
use xshell::{Shell, cmd};

use crate::{
    aot, browser, mutants, nvrtc,
    paths::{UNOPTIMISED, target_dir},
    plan_instructions, py, skips,
};
use programs::Chosen;

/// The packages of a plain run: the library and its tests, without bindings, tools and examples.
const LIBRARY: [&str; 11] = [
    "attn-cache",
    "attn-codegen",
    "attn-core",
    "attn-kernels",
    "attn-macros",
    "attn-needs",
    "attn-rs",
    "attn-testing",
    "attn-tests",
    "attn-text",
    "attn-variants",
];

/// Parts of the names of tests that a plain run leaves out: emulated kernels, those that search longest, and what
/// compiles all variants or builds crates. `--ci` runs them, in this order.
const LONG: [&str; 36] = [
    "sanitized_emulated::",
    "trees_compile_inside",
    "tests::every_other::",
    "tests::forgetting::",
    "tests::decaying::",
    "random_hooks",
    "random_long_hooks",
    "random_masks",
    "catalogue_entries_equal",
    "second_half",
    "second_third",
    "last_third",
    "compile_fail",
    "^ui$",
    "every_stock_variant_compiles",
    "_compile_within_their_budget",
    "_compiles_within_its_budget",
    "compiles_within_seconds",
    "sampling_compiles",
    "indexers_compile",
    "planner_kernel",
    "stored_kv_kernels",
    "prefill_sm90::",
    "spills_nothing",
    "appends_through_hooks_compile",
    "a_user_variant_has_the_instructions",
    "a_written_hook_changes_the_kernel",
    "kernels_for_an_h200_compile",
    "ranges_and_branches_compile",
    "kernels_with_i64",
    "in_any_chunk",
    "beside_1000_growing",
    "draws_follow_the_distribution",
    "splitting_changes_only_rounding",
    "device_plans_under_masks",
    // many, of some seconds each: all cores end at about the same time
    "emulated::",
];

/// Those of [`LONG`] that a plain run has: a few kernels of each family.
const KEPT: [&str; 4] = ["the_small_grid", "samples_of_the_grid", "emulated::merges", "emulated::chains"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Do not stop at the first step that fails.
    #[arg(long)]
    keep_going: bool,
    /// Also tests bindings, tools, examples, the wheel, embedded kernels and instructions of planning, and leaves no
    /// test out that takes a minute.
    #[arg(long)]
    ci: bool,
    /// With what `--ci` adds, also the tests that take minutes each, and whole grids where others run samples: every
    /// variant for every architecture, the catalogue's kernels, all emulated kernels, and their mutants.
    #[arg(long)]
    all: bool,
    /// Passed on to the main test run (for example a test's name); all tests can be named.
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs every step, and names those that fail at the end.
pub(crate) fn run(sh: &Shell, root: &Path, args: &Args) -> Result<()> {
    let whole = args.ci || args.all;
    let nvrtc = nvrtc::ensure(sh, &target_dir(root)?)?;
    eprintln!("xtask: NVRTC is {}", nvrtc.display());
    let _nvrtc = sh.push_env("ATTN_NVRTC", &nvrtc);
    // tests use their own cache, never the user's
    let cache = target_dir(root)?.join("test-cache");
    let _cache = sh.push_env("ATTN_CACHE_DIR", &cache);

    if whole && let Err(error) = browser::ensure(sh) {
        // the tests that need it fail, and others run
        eprintln!("xtask: {error:#}");
    }
    // what is provided here is required, and what a runner of CI can install
    let required = required();
    let words: Vec<&str> = required.iter().map(|need| need.word()).collect();
    let _required = sh.push_env("ATTN_TEST_REQUIRE", words.join(","));
    let _whole = args.all.then(|| sh.push_env("ATTN_TEST_WHOLE", "1"));
    let skips = target_dir(root)?.join("test-skips");
    skips::forget(&skips)?;
    let _skips = sh.push_env("ATTN_TEST_SKIPS", &skips);

    // Without the names `default`, host and target have more crates in common; members ask for what tests need.
    let packages: Vec<&str> = match whole {
        true => vec!["--workspace", "--no-default-features"],
        false => ["--no-default-features"].into_iter().chain(LIBRARY.iter().flat_map(|p| ["-p", p])).collect(),
    };
    let mut steps = Steps { keep_going: args.keep_going, failed: Vec::new() };
    steps.run("tests", || tests(sh, &packages, args));
    steps.run("doctests", || Ok(cmd!(sh, "cargo test --doc {packages...}").run()?));
    // skipped when the caller names tests
    if whole && args.rest.is_empty() {
        // variants are registered by tables and calls alone
        let bare = ["-p", "attn-core", "-p", "attn-variants", "--no-default-features", "--config", UNOPTIMISED];
        // messages of rustc are the same without it
        let skip = ["--", "--exact", "--skip", "ui"];
        steps.run("tests without inventory", || {
            Ok(cmd!(sh, "cargo test --lib --tests --quiet {bare...} {skip...}").run()?)
        });
        steps.run("kernels embedded ahead of time", || aot::run(sh, &target_dir(root)?));
        steps.run("the Python wheel", || py::test(sh, root, &required));
        if args.all {
            steps.run("mutants", || mutants::run(sh, root, &mutants::Args::default()));
        }
        steps.run("instructions of planning", || plan_instructions::test(sh, root, &required));
    }
    eprintln!("xtask: {}", skips::summary(&skips)?);
    if steps.failed.is_empty() { Ok(()) } else { bail!("failed: {}", steps.failed.join(", ")) }
}

/// The steps of a run, and those that failed.
struct Steps {
    keep_going: bool,
    failed: Vec<&'static str>,
}

impl Steps {
    fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<()>) {
        if !self.failed.is_empty() && !self.keep_going {
            return;
        }
        eprintln!("xtask: {name}");
        let start = Instant::now();
        let result = step();
        eprintln!("xtask: {name}: {} s", start.elapsed().as_secs());
        if let Err(error) = result {
            eprintln!("xtask: {error:#}");
            self.failed.push(name);
        }
    }
}

/// The main test run.
fn tests(sh: &Shell, packages: &[&str], args: &Args) -> Result<()> {
    let nextest = cmd!(sh, "cargo nextest --version").quiet().ignore_stdout().ignore_stderr().run().is_ok();
    // a test that is named runs
    let all_long = args.ci || args.all || !args.rest.is_empty();
    let rest = &args.rest;
    if nextest {
        let mut step = cmd!(sh, "cargo nextest run {packages...}");
        if args.all {
            step = step.args(["--run-ignored", "all", "--profile", "all"]);
        }
        if !all_long {
            let tests = format!("not test(/{}/) or test(/{}/)", LONG.join("|"), KEPT.join("|"));
            step = step.args(["-E".to_owned(), tests]);
        }
        return Ok(step.args(rest).run()?);
    }
    eprintln!("xtask: cargo-nextest is not installed (`cargo install cargo-nextest --locked`); using `cargo test`");
    if rest.is_empty() {
        let kept = (!all_long).then_some(&KEPT[..]);
        return programs::run(sh, packages, &Chosen { long: &LONG, kept, ignored: args.all });
    }
    let ignored = args.all.then_some("--include-ignored");
    Ok(cmd!(sh, "cargo test --lib --bins --tests {packages...} {rest...} --").args(ignored).run()?)
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
