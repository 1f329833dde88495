//! Variants as Rust text.

use super::{attn, attn_json, command, failure, lines, records, scratch, text};

#[test]
fn cases_and_all_know_the_variants_of_a_file() {
    let dir = scratch();
    let near = concat!(
        "#[derive(Clone, VariantParams)]\nstruct OfAFile { x: i32 }\n#[attention_variant]\n",
        "impl AttentionVariant for OfAFile {\n",
        "    fn logits_mask(&self, at: LogitIndex) -> bool { at.kv_pos < self.x }\n}\n",
    );
    let (file, cases) = (dir.path().join("mine.rs"), dir.path().join("cases.jsonl"));
    std::fs::write(&file, near).expect("written");
    let case = concat!(
        r#"{"variant":"of_a_file(x=3)","kernel":"decode","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"#,
        r#""qo_lens":[1],"kv_lens":[5]}"#,
    );
    std::fs::write(&cases, case).expect("written");
    let [file, cases] = [&file, &cases].map(|path| path.to_str().expect("UTF-8"));
    // nothing is compiled: what would be is named
    let variants = |args: &[&str]| -> Vec<String> {
        let args = [&["compile"], args, &["--rust", file, "--arch", "80", "--kernel", "decode", "--json"]].concat();
        let output = command(dir.path(), &args).env("ATTN_NVRTC", "/nowhere").env("ATTN_COMPILER", "nvrtc").output();
        let output = output.expect("attn runs");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        lines(&output).iter().filter_map(|line| line["variant"].as_str().map(str::to_owned)).collect()
    };
    let all = variants(&["all"]);
    assert!(all.contains(&"of_a_file(x=1)".to_owned()), "{all:?}");
    let mut of_cases = variants(&["causal", "--cases", cases]);
    of_cases.sort();
    assert_eq!(of_cases, ["causal", "of_a_file(x=3)"]);
}

#[test]
fn a_source_file_is_a_variant() {
    let dir = scratch();
    let near = concat!(
        "use attn::prelude::*;\n\n",
        "/// Keys within a distance.\n#[derive(Clone, VariantParams)]\nstruct Near {\n    distance: i32,\n}\n\n",
        "#[attention_variant]\nimpl AttentionVariant for Near {\n",
        "    fn logits_mask(&self, at: LogitIndex) -> bool {\n",
        "        (at.qo_pos - at.kv_pos).abs() <= self.distance\n    }\n}\n",
    );
    let file = dir.path().join("near.rs");
    std::fs::write(&file, near).expect("written");
    let path = file.to_str().expect("UTF-8");
    let source = attn(dir.path(), &["source", path]);
    assert!(source.status.success(), "{}", text(&source.stderr));
    assert!(text(&source.stdout).contains("struct Near {"), "{}", text(&source.stdout));
    let full = attn(dir.path(), &["source", "causal + near(distance=9)", "--rust", path, "--full"]);
    assert!(text(&full.stdout).contains(&format!("#line 11 \"{path}\"")), "a line of the file");

    let expr = "near(distance=100)";
    let args = ["tiles", expr, "--rust", path, "--qo", "1024", "--kv", "1024"];
    let record = &records(&attn_json(dir.path(), &args))[0];
    assert_eq!([&record["tiles"], &record["skip"]], [64, 64 - 22], "all but the diagonal and its neighbours");
    let checked = failure(&attn(dir.path(), &[&args[..], &["--check"]].concat()));
    assert!(checked.contains("`near` was read from Rust text, which runs on CUDA devices alone"), "{checked}");

    std::fs::write(&file, near.replace("self.distance", "self.distances")).expect("written");
    let error = failure(&attn(dir.path(), &["source", path]));
    assert!(error.contains("near.rs:12:47: no field `distances` on this variant; there are: `distance`"), "{error}");
    let error = failure(&attn(dir.path(), &["source", "missing.rs"]));
    assert!(error.contains("cannot read missing.rs"), "{error}");
}
