//! The report of `attn bench`.

use super::{attn_json, failure, records, scratch, text};

const CASES: &str = concat!(
    r#"{"name":"short <causal> & \"x\"","variant":"causal","dtype":"bf16","qo_heads":2,"kv_heads":1,"head_dim":64,"#,
    r#""qo_lens":[9],"kv_lens":[20],"ours_also":["ragged","pages"],"kv_layout":"paged"}"#,
    "\n",
    r#"{"name":"decode","variant":"full","dtype":"f16","qo_heads":4,"kv_heads":2,"head_dim":64,"#,
    r#""qo_lens":[1,1],"kv_lens":[40,300]}"#,
);

/// The text of an HTML page that is well-formed XML: elements are closed in order, attributes are quoted and named
/// once, references are of XML. Panics where it is not.
fn text_of(page: &str) -> String {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    let (mut open, mut text, mut elements) = (Vec::new(), String::new(), 0);
    while let Some(at) = rest.find('<') {
        text.push_str(&unescaped(&rest[..at]));
        let end = rest[at..].find('>').unwrap_or_else(|| panic!("an open tag: {}", &rest[at..])) + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed in order");
            continue;
        }
        let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()) && !name.is_empty(), "<{tag}>");
        assert!(!open.is_empty() || elements == 0, "one root");
        check_attributes(attributes);
        elements += 1;
        if !empty {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} are open before {rest:?}");
    text
}

fn check_attributes(attributes: &str) {
    let (mut rest, mut names) = (attributes, Vec::new());
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("no value: {attributes}"));
        let (value, after) = value.split_once('"').unwrap_or_else(|| panic!("no end: {attributes}"));
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{attributes}");
        assert!(!names.contains(&name), "{name} twice: {attributes}");
        unescaped(value);
        names.push(name);
        rest = after.strip_prefix(' ').unwrap_or(after);
        assert!(rest.is_empty() || rest.len() < after.len(), "a space between attributes: {attributes}");
    }
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, after) = part.split_once(';').unwrap_or_else(|| panic!("a bare & before {part:?}"));
        let named = [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"')].into_iter().find(|(n, _)| *n == name);
        plain.push(named.unwrap_or_else(|| panic!("&{name}; is not of XML")).1);
        plain.push_str(after);
    }
    plain
}

#[test]
fn the_checker_of_pages_finds_faults() {
    let page = |body: &str| format!("<!DOCTYPE html>\n<p>{body}</p>\n");
    assert_eq!(text_of(&page("a &lt; <b x=\"1\" y-z=\"&amp;\">b</b><br/>")), "\na < b");
    for fault in [
        "<b>",
        "</b>",
        "<b></p>",
        "a & b",
        "&nbsp;",
        "<b x=1></b>",
        "<b x=\"1\" x=\"2\"></b>",
        "<b x=\"1\"y=\"2\"></b>",
        "< b",
    ] {
        let found = std::panic::catch_unwind(|| text_of(&page(fault)));
        assert!(found.is_err(), "{fault} is no fault");
    }
    std::panic::catch_unwind(|| text_of("<!DOCTYPE html><p></p><p></p>")).expect_err("two roots");
}

#[test]
fn a_report_has_every_case_and_number_and_loads_nothing() {
    let dir = scratch();
    let [cases, page] = ["cases.jsonl", "report.html"].map(|name| dir.path().join(name));
    std::fs::write(&cases, CASES).expect("written");
    let [cases, page] = [&cases, &page].map(|path| path.to_str().expect("UTF-8"));
    let args = ["bench", cases, "--device", "cpu", "--reps", "2", "--report", page, "--commit", "abc123"];
    let output = attn_json(dir.path(), &args);
    assert!(text(&output.stderr).contains(&format!("report: {page}")), "{}", text(&output.stderr));
    let records = records(&output);
    let html = std::fs::read_to_string(page).expect("a page");
    let words = text_of(&html);

    let (run, not_run): (Vec<_>, Vec<_>) = records.iter().partition(|record| record["ms"].is_f64());
    assert_eq!((run.len(), not_run.len()), (3, 1), "pages of a case without a list: {records:?}");
    for record in &run {
        let name = record["name"].as_str().expect("a name");
        let form = record["form"].as_str().map_or(String::new(), |form| format!(": {form}"));
        assert!(words.matches(&format!("{name}{form}")).count() >= 3, "{name}{form} is in the pictures and the table");
    }
    // a row has us, GB/s, TFLOP/s and FLOP/byte; the CPU has no floors
    let values: Vec<f64> = html
        .split("<data value=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().expect("a value").parse().expect("a number"))
        .collect();
    let expected = run.iter().flat_map(|record| {
        let [ms, gbps, tflops] = ["ms", "gbps", "tflops"].map(|field| record[field].as_f64().expect("a number"));
        [ms * 1e3, gbps, tflops, tflops * 1e3 / gbps]
    });
    let expected: Vec<f64> = expected.collect();
    assert_eq!(values.len(), expected.len());
    assert!(values.iter().zip(&expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-9), "{values:?} {expected:?}");
    assert_eq!((html.matches("<circle").count(), html.matches("class=\"time").count()), (3, 3));

    let why = not_run[0]["cannot"].as_str().expect("a reason");
    for said in [why, "commit abc123", "--reps 2", "2 timed", "wall time", "No roofs and no floors", "(UTC)"] {
        assert!(words.contains(said), "no `{said}` in:\n{words}");
    }
    for outside in ["http:", "https:", "src=", "href=", "<script", "<link", "url(", "@import", "onload"] {
        assert!(!html.contains(outside), "`{outside}` in:\n{html}");
    }
    for part in ["role=\"img\"", "<desc ", "prefers-color-scheme: dark", "lang=\"en\"", "width=device-width"] {
        assert!(html.contains(part), "no `{part}` in:\n{html}");
    }
}

#[test]
fn a_report_is_refused_before_the_first_run() {
    let dir = scratch();
    let missing = dir.path().join("no folder/report.html");
    let missing = missing.to_str().expect("UTF-8");
    let cases = ["bench", "--expr", "causal", "--match", "over-000", "--device", "cpu"];
    let error = failure(&attn_json(dir.path(), &[&cases[..], &["--report", missing]].concat()));
    assert!(error.contains("cannot write") && error.contains("report.html"), "{error}");
    for other in [&["--ops", "--report", "r.html"][..], &["--serve", "--report", "r.html"], &["--commit", "abc"]] {
        let output = attn_json(dir.path(), &[&["bench"], other].concat());
        assert!(output.status.code() == Some(2) && text(&output.stderr).contains("--report"), "{other:?}");
    }
}
