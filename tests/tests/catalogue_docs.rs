//! `docs/catalogue.md` is what the entries make of it, and `benches/cases/catalogue.jsonl` holds a case for each of them.

use attn_tests::catalogue;

fn fresh(path: &str, text: &str, how: &str) {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).expect("the file can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "{path} is stale; write it anew: {how}");
}

#[test]
fn the_page_is_fresh() {
    let how = "UPDATE_DOCS=1 cargo test -p attn-tests --test catalogue_docs";
    fresh("docs/catalogue.md", &catalogue::docs::page(), how);
}

#[test]
fn the_cases_are_those_of_the_entries() {
    let cases = catalogue::cases::gpu(&catalogue::entries());
    let lines: Vec<String> = cases.iter().map(|case| serde_json::to_string(case).expect("JSON")).collect();
    let how = "UPDATE_DOCS=1 cargo test -p attn-tests --test catalogue_docs";
    fresh("benches/cases/catalogue.jsonl", &(lines.join("\n") + "\n"), how);
}
