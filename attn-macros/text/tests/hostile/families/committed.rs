//! The committed corpora of the fuzzers.

use std::{fs, path::Path};

use super::source::Texts;

/// A sample of each corpus, unless `whole`.
pub(super) fn add(all: &mut Texts, whole: bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/fuzz");
    for name in ["rust_text", "macro_input"] {
        let text = fs::read_to_string(folder.join(format!("{name}.jsonl"))).expect("a corpus");
        let lines = text.lines().enumerate().filter(|(i, _)| whole || i % 3 == 0);
        lines.for_each(|(i, line)| all.add(format!("{name}_{i}"), text_of(line)));
    }
    for entry in fs::read_dir(folder.join("macro_input")).expect("cases") {
        let path = entry.expect("a case").path();
        let text = String::from_utf8_lossy(&fs::read(&path).expect("a case")).into_owned();
        all.add(path.display().to_string(), text);
    }
}

/// A string of JSON, or its bytes.
fn text_of(line: &str) -> String {
    serde_json::from_str::<String>(line).unwrap_or_else(|_| line.to_owned())
}
