//! Lists of variants, and the text of their kernels.

use super::{attn, attn_json, command, failure, records, scratch, text};

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
