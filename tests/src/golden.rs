//! Text in files of the repository that tests compare with what they make, and write with `UPDATE_DOCS=1`.

use std::{fs, path::Path};

/// Compares a file, named from the folder of the tests, with a text.
pub fn compare(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if kept == text {
        return;
    }
    let differs = kept.lines().zip(text.lines()).position(|(a, b)| a != b);
    let line = differs.unwrap_or_else(|| kept.lines().count().min(text.lines().count()));
    let made = text.lines().nth(line).unwrap_or_default();
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    assert!(update, "{file}:{}: stale; run this test with UPDATE_DOCS=1, which writes\n{made}", line + 1);
    fs::write(&path, text).expect("a file that can be written");
}

/// Compares the section of a page between `<!-- mark -->` and `<!-- end of mark -->` with a text.
pub fn compare_section(file: &str, mark: &str, text: &str) {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect("a page");
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- end of {mark} -->"));
    let (head, rest) = page.split_once(&begin).expect("a mark");
    let (_, tail) = rest.split_once(&end).expect("a mark");
    compare(file, &format!("{head}{begin}{text}\n{end}{tail}"));
}
