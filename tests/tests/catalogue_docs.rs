//! `book/src/catalogue.md` equals the page that the entries give, and their cases survive a case file.

use attn_testing::Case;
use attn_tests::catalogue;

#[test]
fn the_page_equals_the_entries() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../book/src/catalogue.md");
    let text = catalogue::docs::page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).expect("the file can be written");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    let how = "UPDATE_DOCS=1 cargo test -p attn-tests --test catalogue_docs";
    assert!(there == text, "{path} is stale; write it with {how}");
}

#[test]
fn the_cases_survive_a_case_file() {
    let cases = catalogue::gpu_cases::all(&catalogue::entries());
    let lines: Vec<String> = cases.iter().map(|case| serde_json::to_string(case).expect("JSON")).collect();
    assert!(Case::parse_lines(&lines.join("\n")).expect("cases") == cases, "a case differs after a round trip");
}
