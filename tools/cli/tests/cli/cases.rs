//! Cases that are checked and timed.

use serde_json::Value;

use super::{attn, attn_json, failure, lines, records, scratch, text};

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
        "qo_lens":[64],"kv_lens":[64],"meta":{"mine":1}}"#;
    std::fs::write(&path, case.replace('\n', "")).expect("written");
    let timed =
        records(&attn_json(dir.path(), &["bench", path.to_str().expect("UTF-8"), "--device", "cpu", "--reps", "3"]));
    let record = &timed[0];
    assert_eq!(record["meta"]["mine"], 1, "notes come back");
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
fn checks_and_timings_on_the_cpu_compile_nothing() {
    let dir = scratch();
    let cache = dir.path().join("cache");
    for command in ["check", "bench"] {
        let output = attn(&cache, &[command, "--expr", "causal", "--match", "over-000", "--device", "cpu"]);
        assert!(output.status.success() && !text(&output.stderr).contains("compiled"), "{}", text(&output.stderr));
    }
    assert!(!cache.exists(), "nothing was written to the cache");
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
fn a_misspelt_field_of_a_case_file_is_refused() {
    let dir = scratch();
    let path = dir.path().join("cases.jsonl");
    let case =
        r#"{"variant":"full","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"qo_lens":[3],"kv_lens":[5]"#;
    for (field, why) in [
        (r#""fixed_split_sise":1024"#, "unknown field `fixed_split_sise`; did you mean `fixed_split_size`?"),
        (r#""kv_dtyp":"e4m3""#, "unknown field `kv_dtyp`; did you mean `kv_dtype`?"),
        (r#""seed":1,"seed":2"#, "duplicate field `seed`"),
    ] {
        std::fs::write(&path, format!("{case}}}\n{case},{field}}}\n")).expect("written");
        let file = path.to_str().expect("UTF-8");
        let commands =
            [&["check", file][..], &["bench", file], &["keys", "--no-grids", file], &["compile", "--cases", file]];
        for args in commands {
            let message = failure(&attn(dir.path(), args));
            assert!(message.contains("cases.jsonl: line 2 is not a case: ") && message.contains(why), "{message}");
        }
    }
}

#[test]
fn fields_that_have_nothing_to_act_on_are_refused() {
    let dir = scratch();
    let path = dir.path().join("cases.jsonl");
    let case = |variant: &str, field: &str| {
        let sizes = r#""dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"qo_lens":[3],"kv_lens":[5]"#;
        format!(r#"{{"variant":"{variant}",{sizes},{field}}}"#)
    };
    let pages = "page_list(page_size=16, max_pages=4)";
    for (variant, field, why) in [
        ("full", r#""q_std":-1"#, "q_std is -1; a standard deviation is finite and not negative"),
        ("full", r#""q_std":1e39"#, "q_std is inf"),
        ("full", r#""counting":true,"q_std":5"#, "q_std has no effect where counting makes all queries 0"),
        ("full", r#""ours_also":["flat","flat"]"#, "ours_also names `flat` twice"),
        (pages, r#""sparse":{"page":16,"keep":-1}"#, "sparse.keep is -1; it is a fraction of pages, from 0 to 1"),
        (pages, r#""sparse":{"page":16,"keep":7}"#, "sparse.keep is 7"),
    ] {
        std::fs::write(&path, case(variant, field)).expect("written");
        let message = failure(&attn(dir.path(), &["check", path.to_str().expect("UTF-8"), "--device", "cpu"]));
        assert!(message.contains("cases.jsonl: line 1: ") && message.contains(why), "{message}");
    }
    for (variant, table, why) in [
        ("full", "nosuch.x", "`nosuch.x` is no tensor that the expression leaves out"),
        ("documents", "documents.of_quer", "did you mean `documents.of_query`?"),
        ("documents(of_query=[0, 0, 0])", "documents.of_query", "is no tensor that the expression leaves out"),
        ("sliding_window(window=3)", "sliding_window.window", "is no tensor that the expression leaves out"),
        ("alibi + sink", "sink.logits", "`sink.logits` has another shape or type than its table"),
    ] {
        std::fs::write(&path, case(variant, &format!(r#""tables":{{"{table}":"kv_lens"}}"#))).expect("written");
        let output = attn_json(dir.path(), &["check", path.to_str().expect("UTF-8"), "--device", "cpu"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        let record = lines(&output)[0].clone();
        assert!(record["cannot"].as_str().is_some_and(|cannot| cannot.contains(why)), "{why}: {record}");
    }
}

#[test]
fn a_byte_order_mark_is_no_mistake_and_positions_are_of_the_file() {
    let dir = scratch();
    let path = dir.path().join("cases.jsonl");
    let case =
        r#"{"variant":"full","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"qo_lens":[3],"kv_lens":[5]"#;
    let exprs = dir.path().join("exprs");
    std::fs::write(&path, format!("\u{feff}{case}}}\r\n")).expect("written");
    std::fs::write(&exprs, "\u{feff}causal\r\n# not this\r\n").expect("written");
    let [path, exprs] = [&path, &exprs].map(|path| path.to_str().expect("UTF-8"));
    assert_eq!(records(&attn_json(dir.path(), &["check", path, "--exprs", exprs, "--list"])).len(), 7);
    std::fs::write(path, format!("{case}}}\n{case},\"seed\":-1}}\n")).expect("written");
    let message = failure(&attn(dir.path(), &["check", path]));
    assert!(message.contains("line 2 is not a case: ") && !message.contains("line 1"), "{message}");
}

#[test]
fn the_dtype_of_the_command_line_is_that_of_keys_and_values_too() {
    let dir = scratch();
    let path = dir.path().join("cases.jsonl");
    let case =
        r#"{"variant":"full","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"qo_lens":[3],"kv_lens":[5]"#;
    let with = |kv: &str| format!("{case},\"kv_dtype\":\"{kv}\"}}\n");
    std::fs::write(&path, ["bf16", "e4m3", "int8"].map(with).concat()).expect("written");
    let args = ["check", path.to_str().expect("UTF-8"), "--dtype", "f16", "--list"];
    let cases = records(&attn_json(dir.path(), &args));
    assert!(cases.iter().all(|case| case["dtype"] == "f16"));
    let kv: Vec<_> = cases.iter().map(|case| case["kv_dtype"].as_str()).collect();
    assert_eq!(kv, [None, Some("e4m3"), Some("int8")]);
}

#[test]
fn the_grid_of_partial_runs_is_a_grid() {
    let dir = scratch();
    let cases = records(&attn_json(dir.path(), &["check", "--grid", "partial", "--list"]));
    let partial = cases.iter().filter(|case| case["partial"] == true).count();
    assert!(partial > 0 && 2 * partial == cases.len(), "each whole and partial: {partial} of {}", cases.len());
}

#[test]
fn bits_are_compared_over_pairs_of_kv_formats() {
    let dir = scratch();
    for format in ["int8 / int4(group=32)", "int8"] {
        let args = ["check", "--bit-exact", "--expr", "causal", "--match", "over-00[01]", "--device", "cpu"];
        let compared = records(&attn_json(dir.path(), &[&args[..], &["--kv-format", format]].concat()));
        assert_eq!(compared.len(), 2);
        for record in compared {
            assert!(record["passed"] == true && record["kv_dtype"] == format, "{record}");
        }
    }
    // without named cases the options choose from the grid of --bit-exact
    let args = ["check", "--bit-exact", "--device", "cpu", "--match", "nothing like this"];
    let message = failure(&attn(dir.path(), &args));
    assert!(message.contains("none of ") && message.contains("matches `nothing like this`"), "{message}");
}
