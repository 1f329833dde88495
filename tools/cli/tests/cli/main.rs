//! Runs the `attn` command: its output, its error messages and its exit codes. No GPU is needed.

mod baselines;
mod cases;
mod combinations;
mod compile;
mod costs;
mod files;
mod report;
mod rust_text;
mod variants;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs `attn` with a cache of its own.
fn attn(cache: &Path, args: &[&str]) -> Output {
    command(cache, args).output().expect("attn runs")
}

fn command(cache: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attn"));
    command
        .args(args)
        .env("ATTN_CACHE_DIR", cache)
        .env_remove("ATTN_LOG")
        .env_remove("ATTN_JIT")
        .env_remove("ATTN_COSTS");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `attn --json` with a cache of its own.
fn attn_json(cache: &Path, args: &[&str]) -> Output {
    attn(cache, &[args, &["--json"]].concat())
}

/// The JSON lines of stdout of a run that succeeds.
fn records(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", text(&output.stderr));
    lines(output)
}

fn lines(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The message of a run that fails with exit code 2: one line, except where it quotes an expression.
fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}{}", text(&output.stdout), text(&output.stderr));
    let message = text(&output.stderr);
    assert!(message.starts_with("attn: ") && output.stdout.is_empty(), "{message}");
    message
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn doctor_reports_each_part_or_how_to_get_it() {
    let dir = scratch();
    let records = records(&attn_json(dir.path(), &["doctor"]));
    for what in ["cpu", "nvrtc", "nvcc", "embedded kernels", "costs", "cache", "host c++"] {
        let record = records.iter().find(|r| r["what"] == what).unwrap_or_else(|| panic!("no {what} in {records:?}"));
        let ok = record["ok"] == true;
        assert!(ok || record["way_out"].as_str().is_some_and(|way| !way.is_empty()), "{record}");
    }
    let cache = records.iter().find(|r| r["what"] == "cache").expect("cache");
    assert!(cache["found"].as_str().is_some_and(|f| f.contains(dir.path().to_str().expect("UTF-8"))), "{cache}");
}

#[cfg(unix)]
#[test]
fn doctor_says_why_a_cache_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = scratch();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("ours");
    let records = records(&attn_json(dir.path(), &["doctor"]));
    let cache = records.iter().find(|r| r["what"] == "cache").expect("cache");
    let found = cache["found"].as_str().expect("a text");
    assert!(cache["ok"] == false && found.contains("mode 777") && found.contains("chmod go-w"), "{cache}");
}

#[test]
fn tiles_are_counted_checked_and_drawn() {
    let dir = scratch();
    let (svg, png) = (dir.path().join("tiles.svg"), dir.path().join("tiles.png"));
    let (svg_arg, png_arg) = (svg.to_str().expect("UTF-8"), png.to_str().expect("UTF-8"));
    let expr = "causal + sliding_window(window=256)";
    let args = ["tiles", expr, "--qo", "1024", "--kv", "1024", "--check", "--svg", svg_arg, "--png", png_arg];
    let record = &records(&attn_json(dir.path(), &args))[0];
    // 8 x 8 tiles: the diagonal and the one two below it are cut by the mask, the one between is full
    assert_eq!([&record["tiles"], &record["partial"], &record["full"], &record["skip"]], [64, 8 + 6, 7, 64 - 21]);
    assert_eq!([&record["empty"], &record["empty_found"], &record["unsound"]], [43, 43, 0]);
    let drawn = std::fs::read_to_string(svg).expect("an SVG");
    assert!(drawn.starts_with("<svg ") && drawn.matches("<rect ").count() >= 8, "{drawn}");
    for label in [">key (kv_pos)<", ">query (row)<", ">skipped<", ">full: no mask<", ">partial: mask<", ">512<", expr] {
        assert!(drawn.contains(label), "no {label} in:\n{drawn}");
    }
    assert!(std::fs::read(png).expect("a PNG").starts_with(b"\x89PNG\r\n"));
    let table = attn(dir.path(), &["tiles", "causal", "--qo", "256", "--kv", "256"]);
    assert!(text(&table.stdout).starts_with("▒▒··\n██▒▒\n"), "{}", text(&table.stdout));
    let error = failure(&attn(dir.path(), &["tiles", "causal", "--heads", "3x2"]));
    assert!(error.contains("query heads are a multiple of KV heads"), "{error}");
}

#[test]
fn calibrate_prints_a_case_for_each_kernel_and_measures_on_gpus_alone() {
    let dir = scratch();
    let cases = records(&attn_json(dir.path(), &["calibrate", "--cases"]));
    assert_eq!(cases.len(), 147);
    let decode = records(&attn_json(
        dir.path(),
        &["calibrate", "--cases", "--match", "decode on tensor-cores of 16 rows, 8-bit"],
    ));
    assert_eq!(decode.len(), 6, "two head_dims, three classes of hooks");
    assert!(decode.iter().all(|case| case["kv_dtype"] == "e4m3" && case["kernel"] == "decode"), "{decode:?}");
    let error = failure(&attn(dir.path(), &["calibrate", "--device", "cpu", "--commit", "x"]));
    assert!(error.contains("costs are of GPUs"), "{error}");
    let error = failure(&attn(dir.path(), &["calibrate", "--cases", "--match", "encode"]));
    assert!(error.contains("no kernel has such a name"), "{error}");
}
