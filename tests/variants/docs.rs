//! `book/src/catalogue.md` equals the page that the entries give, and their cases survive a case file.

use attn_testing::Case;
use attn_tests::{catalogue, golden};

#[test]
fn the_page_equals_the_entries() {
    golden::compare("../book/src/catalogue.md", &catalogue::docs::page());
}

#[test]
fn the_cases_survive_a_case_file() {
    let cases = catalogue::gpu_cases::all(&catalogue::entries());
    let lines: Vec<String> = cases.iter().map(|case| serde_json::to_string(case).expect("JSON")).collect();
    assert!(Case::parse_lines(&lines.join("\n")).expect("cases") == cases, "a case differs after a round trip");
}
