//! Runs the `attn` command: its output, its error messages and its exit codes. No GPU is needed.

mod costs;
mod report;
mod rust_text;

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use attn_kernels::compile::nvrtc::Nvrtc;
use attn_needs::{Need, has};
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
fn list_names_every_stock_variant_with_parameters_hooks_and_doc() {
    let dir = scratch();
    let records = records(&attn_json(dir.path(), &["list"]));
    let names: Vec<_> = records.iter().filter_map(|r| r["variant"].as_str()).collect();
    assert!(names.is_sorted() && names.len() >= 9, "{names:?}");
    let soft_cap = records.iter().find(|r| r["variant"] == "soft_cap").expect("soft_cap");
    assert_eq!(soft_cap["params"][0]["name"], "cap");
    assert_eq!(soft_cap["params"][0]["type"], "f32");
    assert_eq!(soft_cap["hooks"][0], "logits_transform");
    assert!(records.iter().all(|r| r["summary"].as_str().is_some_and(|s| !s.is_empty())), "{records:?}");
    let table = text(&attn(dir.path(), &["list"]).stdout);
    assert!(table.contains("soft_cap") && table.contains("cap: f32") && table.contains("logits_transform"), "{table}");
}

#[test]
fn a_pipe_gets_a_table_without_colours_in_the_width_that_columns_names() {
    let dir = scratch();
    for args in [&["list"][..], &["list", "sliding_window"], &["doctor"], &["tiles", "causal"]] {
        let output = command(dir.path(), args).env("COLUMNS", "80").output().expect("attn runs");
        let table = text(&output.stdout);
        assert!(output.status.success() && !table.starts_with('{') && !table.contains('\u{1b}'), "{table}");
        let wide: Vec<_> = table.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{args:?}: {wide:#?}");
    }
}

#[test]
fn one_variant_is_a_page() {
    let dir = scratch();
    let output = command(dir.path(), &["list", "sliding_window"]).env("COLUMNS", "80").output().expect("attn runs");
    let page = text(&output.stdout);
    for label in ["name", "summary", "parameters", "hooks", "tile classes", "source"] {
        assert!(page.lines().any(|line| line.trim_start().starts_with(label)), "no `{label}` in:\n{page}");
    }
    assert!(page.contains("window: i32") && page.contains("logits_mask"), "{page}");
    assert_eq!(records(&attn_json(dir.path(), &["list", "sliding_window"])).len(), 1);
}

#[test]
fn an_unknown_variant_suggests_the_nearest() {
    let dir = scratch();
    for args in
        [&["source", "causal + soft_kap(cap=30)"][..], &["compile", "causal + soft_kap(cap=30)"], &["list", "soft_kap"]]
    {
        let message = failure(&attn(dir.path(), args));
        assert!(message.contains("soft_kap") && message.contains("did you mean `soft_cap`?"), "{message}");
    }
    let message = failure(&attn(dir.path(), &["source", "soft_cap(kap=30)"]));
    assert!(message.contains("did you mean `cap`?"), "{message}");
}

#[test]
fn source_prints_the_functor_alone() {
    let dir = scratch();
    let source = |expr| {
        let output = attn(dir.path(), &["source", expr]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let functor = source("soft_cap(cap=30)");
    assert!(functor.lines().count() < 100, "{functor}");
    assert!(functor.contains("\nstruct SoftCap {\n") && functor.contains("logits_transform"), "{functor}");
    assert_eq!(functor, source("soft_cap(cap=50)"), "a parameter is an argument and no part of the text");
    let composed = source("causal + sliding_window(window=512) + documents");
    for word in ["struct Variant", "logits_mask", "struct Causal"] {
        assert!(composed.contains(word), "no `{word}` in:\n{composed}");
    }
    for text in [&functor, &composed] {
        for absent in ["#include", "#line", "attn_prefill", "/home", "/work", env!("CARGO_MANIFEST_DIR")] {
            assert!(!text.contains(absent), "`{absent}` in:\n{text}");
        }
        let absolute =
            |word: &str| word.len() > 1 && word.starts_with('/') && !word.starts_with("//") && !word.starts_with("/*");
        assert!(!text.split([' ', '"', '(', '\n']).any(absolute), "an absolute path in:\n{text}");
    }
}

#[test]
fn options_of_the_kernel_need_full() {
    let dir = scratch();
    for option in [["--kernel", "decode"], ["--arch", "sm_80"], ["--head-dim", "64"], ["--prefill", "sm80"]] {
        let output = attn(dir.path(), &["source", "causal", option[0], option[1]]);
        assert_eq!(output.status.code(), Some(2), "{option:?}");
        assert!(text(&output.stderr).contains("--full"), "{}", text(&output.stderr));
    }
}

#[test]
fn full_source_is_one_unit_without_includes() {
    let dir = scratch();
    let full = |expr, options: &[&str]| {
        let output = attn(dir.path(), &[&["source", expr, "--full"], options].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let unit = full("causal + soft_cap(cap=30)", &["--kernel", "prefill", "--arch", "sm_90a"]);
    assert!(!unit.lines().any(|line| line.trim_start().starts_with("#include")));
    for word in ["struct Variant", "logits_transform", "logits_mask", "attn_prefill"] {
        assert!(unit.contains(word), "no `{word}` in:\n{unit}");
    }
    let decode = full("causal", &["--kernel", "decode", "--head-dim", "64"]);
    assert!(decode.contains("attn_decode") && !decode.contains("attn_prefill"));
    let rope = |stored| full("rope", &["--stored", stored]);
    assert!(rope("raw").contains("attn_kv_preprocess(") && !rope("transformed").contains("attn_kv_preprocess("));
}

#[test]
fn kernels_that_do_not_exist_are_refused_by_name() {
    let dir = scratch();
    let refused = |args: &[&str]| failure(&attn(dir.path(), args));
    assert!(refused(&["source", "causal", "--full", "--head-dim", "516"]).contains("multiples of 8 up to 512"));
    let of_tensor_cores = ["source", "causal", "--full", "--kernel", "decode", "--decode", "tensor-cores"];
    let message = refused(&[&of_tensor_cores[..], &["--dtype", "f32"]].concat());
    assert!(message.contains("f16 and bf16") && message.contains("the backend `cuda-cores`"), "{message}");
    assert!(refused(&["source", "causal", "--full", "--kv-dtype", "f32"]).contains("of bf16 with k and v of f32"));
    assert!(refused(&["source", "causal", "--full", "--arch", "sm_70"]).contains("sm_75 is the oldest"));
    let message = refused(&["compile"]);
    assert!(message.contains("name an expression"), "{message}");
    let message = refused(&["check", "--grid", "small", "--device", "tpu"]);
    assert!(message.contains("cpu, cuda, cuda:N, auto"), "{message}");
}

#[test]
fn compile_reports_resources_and_compiles_once() {
    let dir = scratch();
    let args = ["compile", "causal + soft_cap(cap=30)", "--arch", "90a;80", "--head-dim", "64"];
    let output = attn_json(dir.path(), &args);
    if !has(Need::Nvrtc, Nvrtc::find()) {
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("pip install nvidia-cuda-nvrtc"));
        return;
    }
    let first = records(&output);
    assert_eq!(first.len(), 4, "two kernels, two architectures");
    for record in &first {
        assert_eq!(record["from"], "compiled");
        let entries = record["entries"].as_array().expect("entries");
        assert!(entries.iter().all(|e| e["regs"].as_u64().is_some_and(|r| (1..=255).contains(&r))), "{record}");
        // prefill's merge is a launch of its own; decode may merge by itself
        let launches = if record["kernel"] == "prefill" { 2 } else { 1 };
        assert!(entries.len() >= launches && record["bytes"].as_u64() > Some(1000), "{record}");
    }
    let again = records(&attn_json(dir.path(), &args));
    assert!(again.iter().all(|r| r["from"] == "disk"), "{again:?}");
    // a parameter is an argument and not text: another value is the same kernel
    let other = ["compile", "causal + soft_cap(cap=50)", "--arch", "90a", "--head-dim", "64"];
    assert!(records(&attn_json(dir.path(), &other)).iter().all(|r| r["from"] == "disk"));
}

#[test]
fn a_missing_compiler_says_how_to_get_one() {
    let dir = scratch();
    let output = command(dir.path(), &["compile", "causal", "--arch", "90a", "--json"])
        .env("ATTN_NVRTC", "/nowhere/libnvrtc.so")
        .env("ATTN_COMPILER", "nvrtc")
        .output()
        .expect("attn runs");
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("/nowhere/libnvrtc.so") && message.contains("pip install"), "{message}");
    assert!(lines(&output).iter().all(|r| r["error"].is_string()));
}

#[test]
fn a_bad_case_file_names_file_and_line() {
    let dir = scratch();
    let path = dir.path().join("cases.jsonl");
    std::fs::write(&path, "\n{\"variant\": \"full\"}\n").expect("written");
    let message = failure(&attn(dir.path(), &["check", path.to_str().expect("UTF-8")]));
    assert!(message.contains("cases.jsonl") && message.contains("line 2") && message.contains("dtype"), "{message}");
    let message = failure(&attn(dir.path(), &["check", "/nowhere.jsonl"]));
    assert!(message.contains("/nowhere.jsonl"), "{message}");
    let message = failure(&attn(dir.path(), &["check", "--grid", "small", "--match", "nothing like this"]));
    assert!(message.contains("96 cases"), "{message}");
}

#[test]
fn check_passes_the_small_grid_on_the_cpu() {
    let dir = scratch();
    let out = dir.path().join("out.jsonl");
    let output =
        attn(dir.path(), &["check", "--grid", "small", "--device", "cpu", "--out", out.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written = std::fs::read_to_string(out).expect("written");
    let records: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(records.len(), 96);
    for record in &records {
        assert!(record["passed"] == true && record["rerun_identical"] == true && record["nan"] == 0, "{record}");
        assert!(record["variant"].is_string() && record["rel_err"].is_number(), "the case and its result: {record}");
    }
    assert!(text(&output.stderr).contains("96 passed, 0 failed"), "{}", text(&output.stderr));
}

#[test]
fn a_case_that_cannot_be_run_fails_a_check_and_not_a_bench() {
    let dir = scratch();
    let path = dir.path().join("cases.jsonl");
    let case =
        r#"{"variant":"full","dtype":"e4m3","qo_heads":2,"kv_heads":1,"head_dim":64,"qo_lens":[3],"kv_lens":[5]}"#;
    std::fs::write(&path, case).expect("written");
    let path = path.to_str().expect("UTF-8");
    let checked = attn_json(dir.path(), &["check", path, "--device", "cpu"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(lines(&checked)[0]["cannot"].as_str().is_some_and(|why| why.contains("e4m3")));
    let timed = records(&attn_json(dir.path(), &["bench", path, "--device", "cpu"]));
    assert!(timed[0]["cannot"].as_str().is_some_and(|why| why.contains("e4m3")));
}

#[test]
fn bench_times_a_case() {
    let dir = scratch();
    let path = dir.path().join("cases.jsonl");
    let case = r#"{"variant":"causal","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,
        "qo_lens":[64],"kv_lens":[64],"mine":1}"#;
    std::fs::write(&path, case.replace('\n', "")).expect("written");
    let timed =
        records(&attn_json(dir.path(), &["bench", path.to_str().expect("UTF-8"), "--device", "cpu", "--reps", "3"]));
    let record = &timed[0];
    assert_eq!(record["mine"], 1, "unknown fields come back");
    for field in ["ms", "gbps", "tflops", "plan_us"] {
        assert!(record[field].as_f64().is_some_and(|x| x > 0.0), "{field}: {record}");
    }
    let flops = 4.0 * (64.0 * 65.0 / 2.0) * 2.0 * 64.0;
    let said = record["tflops"].as_f64().expect("a number") * record["ms"].as_f64().expect("a number") * 1e9;
    assert!((said / flops - 1.0).abs() < 1e-6, "only attended pairs count: {said} is not {flops}");
}

#[test]
fn fp8_caches_are_checked_and_their_bytes_counted() {
    let dir = scratch();
    let path = dir.path().join("cases.jsonl");
    let case = r#"{"variant":"causal + rope","dtype":"bf16","kv_dtype":"e4m3","kv_scale":0.5,"kv_scale_per_head":true,
        "qo_heads":4,"kv_heads":2,"head_dim":64,"kv_layout":"paged","page_size":5,"qo_lens":[1,3],"kv_lens":[70,33]}"#;
    let case = case.replace('\n', "");
    std::fs::write(&path, format!("{case}\n{}", case.replace("e4m3", "e5m2"))).expect("written");
    let path = path.to_str().expect("UTF-8");
    for record in records(&attn_json(dir.path(), &["check", path, "--device", "cpu"])) {
        assert!(record["passed"] == true && record["kv_scale_per_head"] == true, "{record}");
    }
    for record in records(&attn_json(dir.path(), &["bench", path, "--device", "cpu", "--reps", "1"])) {
        let bytes = f64::from(2 * 103 * 2 * 64);
        let said = record["gbps"].as_f64().expect("a number") * record["ms"].as_f64().expect("a number") * 1e6;
        assert!((said / bytes - 1.0).abs() < 1e-6, "{said} is not {bytes}: {record}");
    }
}

#[test]
fn serve_speaks_the_protocol_of_the_interleaved_benchmark() {
    let dir = scratch();
    let mut child = command(dir.path(), &["bench", "--serve", "--device", "cpu"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("attn runs");
    let case =
        r#"{"variant":"causal","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"qo_lens":[8],"kv_lens":[8]}"#;
    let bad = case.replace("bf16", "e4m3");
    let modes = case.replace(
        r#""qo_lens":[8],"kv_lens":[8]"#,
        r#""qo_lens":[20,1],"kv_lens":[20,9],"ours_also":["sequential","flat"]"#,
    );
    let script = format!(
        "{{\"time\": \"attn\"}}\n{{\"prepare\": {case}}}\n{{\"time\": \"attn\", \"reps\": 3}}\n{{\"drop\": true}}\n\
         {{\"prepare\": {bad}}}\nnonsense\n\
         {{\"prepare\": {modes}}}\n{{\"time\": \"sequential\", \"reps\": 1}}\n{{\"time\": \"flat\"}}\n"
    );
    child.stdin.take().expect("piped").write_all(script.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends");
    let answers = lines(&output);
    assert_eq!(answers.len(), 9, "{answers:?}");
    assert!(answers[0]["error"].is_string());
    assert!(answers[1]["ready"]["attn"].is_object() && answers[1]["cannot"].as_object().is_some_and(|c| c.is_empty()));
    assert!(answers[2]["ms"].as_f64().is_some_and(|ms| ms > 0.0));
    assert_eq!(answers[3]["dropped"], true);
    assert!(answers[4]["cannot"]["attn"].as_str().is_some_and(|why| why.contains("e4m3")));
    assert!(answers[5]["error"].is_string());
    let ready = answers[6]["ready"].as_object().expect("runners");
    assert!(ready.keys().eq(["attn", "sequential"]) && answers[6]["cannot"]["flat"].is_string(), "{answers:?}");
    assert!(ready["sequential"]["ran"].as_str().is_some_and(|ran| ran.contains(", then ")), "{answers:?}");
    assert!(answers[7]["ms"].as_f64().is_some_and(|ms| ms > 0.0) && answers[8]["error"].is_string(), "{answers:?}");
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
fn without_a_gpu_cuda_is_a_clear_error() {
    let dir = scratch();
    if attn_kernels::cuda::driver::device_count().is_ok_and(|count| count > 0) {
        let message = failure(&attn(dir.path(), &["check", "--grid", "small", "--device", "cuda:77"]));
        assert!(message.contains("77"), "{message}");
        return;
    }
    let message = failure(&attn(dir.path(), &["check", "--grid", "small", "--device", "cuda"]));
    assert!(message.contains("driver") || message.contains("device"), "{message}");
}

#[test]
fn all_names_every_registered_variant() {
    if !has(Need::Nvrtc, Nvrtc::find()) {
        return;
    }
    let cache = scratch();
    let names = |output: &Output| -> BTreeSet<String> {
        records(output).iter().filter_map(|r| r["variant"].as_str().map(str::to_owned)).collect()
    };
    let listed = names(&attn_json(cache.path(), &["list"]));
    let compiled = names(&attn_json(cache.path(), &["compile", "all", "--kernel", "decode", "--head-dim", "64"]));
    assert_eq!(compiled.len(), listed.len(), "{compiled:?}");
    let some = ["soft_cap(cap=1)", "rope", "dropout(rate=0.5)"];
    assert!(some.iter().all(|expr| compiled.contains(*expr)), "{compiled:?}");
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
fn expressions_are_checked_over_a_grid() {
    let dir = scratch();
    let file = dir.path().join("exprs");
    std::fs::write(&file, "# of this test\n\ncausal + sink\n").expect("written");
    let args = ["check", "--exprs", file.to_str().expect("UTF-8"), "--expr", "full", "--list"];
    let cases = records(&attn_json(dir.path(), &args));
    assert_eq!(cases.iter().map(|c| c["variant"].as_str().expect("an expression")).collect::<Vec<_>>(), {
        let of = |expr| std::iter::repeat_n(expr, 6);
        of("full").chain(of("causal + sink")).collect::<Vec<_>>()
    });
}

#[test]
fn cases_take_turns_over_kv_formats() {
    let dir = scratch();
    let formats = ["int8", "turbo4 / f16", "int4(group=32)"];
    let options = formats.iter().flat_map(|format| ["--kv-format", format]);
    let args: Vec<&str> = ["check", "--expr", "full", "--list"].into_iter().chain(options).collect();
    let cases = records(&attn_json(dir.path(), &args));
    let of_cases: Vec<&str> = cases.iter().map(|case| case["kv_dtype"].as_str().expect("a format")).collect();
    assert_eq!(of_cases, formats.repeat(2));
    let error = failure(&attn(dir.path(), &["check", "--expr", "full", "--kv-format", "int8", "--kv-format", "int9"]));
    assert!(error.contains("int9"), "{error}");
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

#[test]
fn checks_and_timings_on_the_cpu_compile_nothing() {
    let dir = scratch();
    let cache = dir.path().join("cache");
    for command in ["check", "bench"] {
        let output = attn(&cache, &[command, "--expr", "causal", "--match", "over-000", "--device", "cpu"]);
        assert!(output.status.success() && !text(&output.stderr).contains("compiled"), "{}", text(&output.stderr));
    }
    assert!(!cache.exists(), "nothing was written to the cache");
}

/// A baseline for `interleave.py --verify` that needs no GPU: with one key a request the output is its value.
const PEER: &str = r#"
import json, os, sys

for line in sys.stdin:
    m = json.loads(line)
    case, folder = m["verify"], m["folder"]
    row, heads, group = 2 * case["head_dim"], case["kv_heads"], case["qo_heads"] // case["kv_heads"]
    v = open(os.path.join(folder, "v.bin"), "rb").read()
    rows = [v[at : at + row] for at in range(0, len(v), row)]
    written = {}
    for name, off in [("right", 0), ("wrong", int(sys.argv[1]))]:
        written[name] = os.path.join(folder, name + ".bin")
        with open(written[name], "wb") as file:
            for n in range(len(rows) // heads):
                for head in range(heads):
                    file.write(rows[n * heads + (head + off) % heads] * group)
    print(json.dumps({"outputs": written, "cannot": {"other": "no such mask"}}), flush=True)
"#;

#[test]
fn a_baseline_over_our_tensors_has_our_output_or_fails() {
    let dir = scratch();
    let [peer, cases] = ["peer.py", "cases.jsonl"].map(|name| dir.path().join(name));
    std::fs::write(&peer, PEER).expect("written");
    let case = |name: &str, layout: &str| {
        format!(
            r#"{{"name":"{name}","variant":"causal","dtype":"f16","qo_heads":8,"kv_heads":2,"head_dim":64,
                "kv_layout":"{layout}","page_size":3,"qo_lens":[1,1,1,1,1],"kv_lens":[1,1,1,1,1]}}"#
        )
        .replace('\n', "")
    };
    let cascade = case("c", "cascade").replace(r#""qo_lens""#, r#""levels":[{"groups":[5],"kv_lens":[3]}],"qo_lens""#);
    std::fs::write(&cases, [case("a", "paged"), case("b", "ragged"), cascade].join("\n")).expect("written");
    let verify = |off: u32, pattern: &str| {
        let ours = format!("{} bench --serve --device cpu", env!("CARGO_BIN_EXE_attn"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/baselines/interleave.py");
        let mut command = Command::new("python3");
        command.arg("-B").arg(script).arg(&cases).args(["--ours", &ours, "--verify", "--match", pattern]);
        command.args(["--peers", &format!("python3 {} {off}", peer.display())]);
        command.env("ATTN_CACHE_DIR", dir.path()).output().expect("python3 runs")
    };
    let equal = verify(0, "");
    let report = text(&equal.stdout);
    assert!(equal.status.success(), "{report}{}", text(&equal.stderr));
    assert!(report.contains("4 outputs of baselines compared with ours, 0 differ"), "{report}");
    assert!(report.contains("not shared") && report.contains("cascade") && report.contains("no such mask"), "{report}");

    let wrong = verify(1, "");
    let report = text(&wrong.stdout);
    assert!(!wrong.status.success() && report.contains("compared with ours, 2 differ"), "{report}");
    let none = verify(0, "^c$");
    assert!(!none.status.success() && text(&none.stdout).contains("0 outputs"), "nothing was compared");
}
