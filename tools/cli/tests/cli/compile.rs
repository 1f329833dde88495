//! Kernels that are compiled.

use std::{collections::BTreeSet, process::Output};

use attn_kernels::compile::nvrtc::Nvrtc;
use attn_needs::{Need, has};
use serde_json::Value;

use super::{attn_json, command, lines, records, scratch, text};

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
    // the entries of the cache have the keys that were recorded
    let kept = records(&attn_json(dir.path(), &["keys", "--cache", dir.path().to_str().expect("UTF-8")]));
    let both = |records: &[Value]| records.iter().map(|r| (r["key"].to_string(), r["code"].to_string())).collect();
    let (kept, first): (BTreeSet<_>, BTreeSet<_>) = (both(&kept), both(&first));
    assert!(kept == first && first.iter().all(|(_, code)| code.len() > 64), "{kept:?}");
}

#[test]
fn code_keys_are_of_the_kernels_that_are_asked_for() {
    let dir = scratch();
    if !has(Need::Nvrtc, Nvrtc::find()) {
        return;
    }
    let [cases, of] = ["cases.jsonl", "of.jsonl"].map(|name| dir.path().join(name).to_str().expect("UTF-8").to_owned());
    let case =
        r#"{"variant":"causal","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"qo_lens":[1],"kv_lens":[9]}"#;
    std::fs::write(&cases, case).expect("written");
    let keys = records(&attn_json(dir.path(), &["keys", "--no-grids", &cases]));
    let asked = keys[0]["key"].as_str().expect("a key");
    std::fs::write(&of, format!("{{\"keys\": [\"{}\"]}}\n", &asked[..12])).expect("written");
    let found = records(&attn_json(dir.path(), &["keys", "--no-grids", &cases, "--code", "--of", &of]));
    assert!(keys.len() > 1 && found.len() == 1 && found[0]["key"] == asked, "{found:?}");
    assert!(found[0]["code"].as_str().is_some_and(|code| code.len() == 64 && code != asked), "{found:?}");
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
#[ignore = "minutes: `cargo xtask test --all`"]
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
