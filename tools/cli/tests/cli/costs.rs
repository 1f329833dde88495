//! Measured costs from a file.

use attn_needs::{Need, has};

use super::{attn, command, failure, scratch, text};

/// Decode on CUDA cores that takes next to no time.
const COSTS: &str = concat!(
    r#"{"about": {"arch": "sm_120", "device": "a GPU", "commit": "c", "date": "2026-01-01"}}"#,
    "\n",
    r#"{"kernel": "decode", "backend": "cuda-cores", "rows": 4, "kv": "16-bit", "head_dim": 128, "hooks": "none", "#,
    r#""ctas_per_sm": 2, "launch": 1, "item": 1, "block": 1, "first": 0, "merge_launch": 1, "merge": 1}"#,
    "\n",
);

#[test]
fn kernels_are_chosen_by_the_costs_of_an_option_or_of_the_environment() {
    let dir = scratch();
    let file = dir.path().join("costs.jsonl");
    std::fs::write(&file, COSTS).expect("written");
    let path = file.to_str().expect("UTF-8");
    let args = ["source", "full", "--full", "--kernel", "decode", "--arch", "120"];
    let source = |more: &[&str], variable: &str| {
        let output = command(dir.path(), &[&args[..], more].concat()).env("ATTN_COSTS", variable).output();
        let output = output.expect("attn runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let built_in = source(&[], "");
    assert_eq!(built_in, text(&attn(dir.path(), &args).stdout), "an empty variable names no file");
    let fast = source(&["--decode", "cuda-cores"], "");
    assert_ne!(built_in, fast);
    assert_eq!(source(&["--costs", path], ""), fast);
    assert_eq!(source(&[], path), fast);
    // the option comes before the variable
    std::fs::write(dir.path().join("slow.jsonl"), COSTS.replace("\"block\": 1", "\"block\": 90000")).expect("written");
    let slow = dir.path().join("slow.jsonl");
    assert_eq!(source(&["--costs", slow.to_str().expect("UTF-8")], path), built_in);
    // which is then not read
    assert_eq!(source(&["--costs", path], "missing.jsonl"), fast);
}

#[test]
fn files_without_costs_are_refused_with_their_line() {
    let dir = scratch();
    let file = dir.path().join("costs.jsonl");
    std::fs::write(&file, COSTS.replace("\"decode\"", "\"mixed\"")).expect("written");
    let path = file.to_str().expect("UTF-8");
    for args in [&["keys", "--no-grids"][..], &["check", "--device", "cpu", "--grid", "small"]] {
        let said = failure(&attn(dir.path(), &[args, &["--costs", path]].concat()));
        let why = format!("{path}, line 2: `kernel` is mixed; possible is decode, prefill");
        assert!(said.contains(&why), "{said}");
    }
    let of_variable =
        |args: &[&str]| command(dir.path(), args).env("ATTN_COSTS", "missing.jsonl").output().expect("attn runs");
    let refused = |args: &[&str]| {
        let said = failure(&of_variable(args));
        assert!(said.contains("ATTN_COSTS=missing.jsonl: ") && said.contains("attn calibrate --out FILE"), "{said}");
    };
    refused(&["keys", "--no-grids"]);
    let check = ["check", "--expr", "causal", "--match", "over-000", "--device"];
    let passes = |args: &[&str]| {
        let output = of_variable(args);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    passes(&[&check[..], &["cpu"]].concat());
    if has(Need::Gpu, attn_kernels::cuda::Device::new(0)) {
        refused(&[&check[..], &["cuda"]].concat());
        std::fs::write(&file, COSTS).expect("written");
        passes(&[&check[..], &["cuda", "--costs", path]].concat());
    }
}
