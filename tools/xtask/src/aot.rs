//! Builds with `ATTN_CUDA_ARCHS` as a user would, and lists the kernels that the binaries embed. No GPU is needed.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use xshell::{Shell, cmd};

use crate::paths::UNOPTIMISED;

const ARCHS: [&str; 2] = ["sm_80", "sm_90a"];

/// The build of a user.
const BUILD: [&str; 6] = ["-p", "attn-cli", "-p", "downstream-app", "--config", UNOPTIMISED];
/// The same programs with the features of the tests; `--test` adds those that tests alone ask for.
const BUILD_AS_TESTS: [&str; 8] =
    ["--workspace", "--no-default-features", "--bin", "attn", "--bin", "downstream-app", "--test", "no_alloc"];

/// Checks that a plain `cargo build` embeds kernels, that `attn list` shows them, that they are used without a
/// compiler, and that a crate with its own variants embeds those.
pub(crate) fn run(sh: &Shell, target: &Path) -> Result<()> {
    // The variable makes build scripts run again, so this has a folder of its own. Continuous integration builds no
    // test after this: there it is the folder of the tests, whose crates serve.
    let (dir, build) = match std::env::var_os("CI") {
        Some(_) => (target.to_owned(), &BUILD_AS_TESTS[..]),
        None => (target.join("aot"), &BUILD[..]),
    };
    let _dir = sh.push_env("CARGO_TARGET_DIR", &dir);
    let _exprs = sh.push_env("ATTN_AOT_EXPRS", "causal");
    cmd!(sh, "cargo build -q {build...}").env("ATTN_CUDA_ARCHS", "80;90a").run()?;

    let attn = dir.join("debug/attn");
    let listed = records(&cmd!(sh, "{attn} list --embedded --json").quiet().read()?)?;
    for arch in ARCHS {
        for kernel in ["prefill", "decode"] {
            let there = listed.iter().any(|cubin| {
                cubin["arch"] == arch && cubin["embedded"].as_str().is_some_and(|name| name.contains(kernel))
            });
            ensure!(there, "`attn list --embedded` shows no {kernel} kernel for {arch}");
        }
    }

    let nothing = [("ATTN_JIT", "off"), ("ATTN_CACHE", "off"), ("ATTN_NVRTC", "/nowhere"), ("ATTN_NVCC", "/nowhere")];
    let used = cmd!(sh, "{attn} compile causal --arch 80;90a --json").quiet().envs(nothing).read()?;
    let used = records(&used)?;
    ensure!(used.len() == 4, "two kernels for two architectures, not {}", used.len());
    ensure!(used.iter().all(|r| r["from"] == "prebuilt"), "an embedded kernel was not used: {used:?}");
    // batches of short prompts select it
    let short = cmd!(sh, "{attn} compile causal --kernel prefill --prefill sm90-resident --arch 90a --json");
    let short = records(&short.quiet().envs(nothing).read()?)?;
    let embedded =
        |r: &Value| r["from"] == "prebuilt" && r["cell"].as_str().is_some_and(|cell| cell.contains("resident"));
    ensure!(!short.is_empty() && short.iter().all(embedded), "prefill of short prompts is not embedded: {short:?}");
    let other =
        cmd!(sh, "{attn} compile sigmoid --arch 80 --json").quiet().envs(nothing).ignore_status().ignore_stderr();
    let other = records(&other.read()?)?;
    let refused = |r: &Value| r["error"].as_str().is_some_and(|why| why.contains("ATTN_JIT=off"));
    ensure!(!other.is_empty() && other.iter().all(refused), "a kernel that is not embedded was not refused: {other:?}");

    let app = dir.join("debug/downstream-app");
    let said = cmd!(sh, "{app}").quiet().read()?;
    for arch in ARCHS {
        for variant in ["strided", "soft_cap + strided"] {
            let of = format!("embedded: {variant}: ");
            let there = said.lines().any(|line| line.starts_with(&of) && line.contains(arch));
            ensure!(there, "downstream-app has no kernel of `{variant}` for {arch}:\n{said}");
        }
    }
    Ok(())
}

/// Records of JSON lines.
pub(crate) fn records(lines: &str) -> Result<Vec<Value>> {
    lines.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}
