//! The oldest Rust of each published crate is that with which the workflow on GitHub checks it.

use crate::files::read;

/// The value of a key of a manifest's `[package]` or `[workspace.package]`.
fn value<'a>(manifest: &'a str, key: &str) -> Option<&'a str> {
    manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
}

#[test]
fn the_workflow_checks_every_published_crate_with_its_oldest_rust() {
    let (workspace, workflow) = (read("Cargo.toml"), read(".github/workflows/ci.yml"));
    // a command may go on in the next line
    let words: Vec<&str> = workflow.split_whitespace().collect();
    let common = value(&workspace, "rust-version").expect("the version of all");
    for folder in [
        ".",
        "serving/cache",
        "tests/testing",
        "attn-macros/text",
        "tools/cli",
        "bindings/c",
        "bindings/candle",
        "bindings/python",
    ] {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let (name, version) = (value(&manifest, "name").expect("a name"), value(&manifest, "rust-version"));
        let toolchain = format!("+{}.0", version.unwrap_or(common));
        let mut after = words.iter().skip_while(|&&word| word != toolchain);
        let checked = after.by_ref().take_while(|&&word| word != "run:").any(|&word| word == name);
        assert!(checked, "{name}: the workflow has no `cargo {toolchain} check` of it");
    }
}
