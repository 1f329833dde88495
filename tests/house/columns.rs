//! Lines of at most 120 columns.

use crate::files::sources;

const COLUMNS: usize = 120;

/// Fixtures of misuse: the compiler's messages about them name lines and columns.
const FIXTURES: &str = "/ui/fail/";

#[test]
fn lines_have_at_most_120_columns() {
    let mut long = Vec::new();
    for source in sources().iter().filter(|source| !source.path.contains(FIXTURES)) {
        let mut fenced = false;
        for (i, line) in source.text.lines().enumerate() {
            let fence = source.is_markdown() && line.trim_start().starts_with("```");
            fenced ^= fence;
            let table = source.is_markdown() && line.trim_start().starts_with('|');
            let url = line.contains("https://") || line.contains("http://");
            if !(fence || fenced || table || url) && line.chars().count() > COLUMNS {
                long.push(format!("{}:{}: {} columns", source.path, i + 1, line.chars().count()));
            }
        }
    }
    assert!(long.is_empty(), "{} lines have more than {COLUMNS} columns:\n{}", long.len(), long.join("\n"));
}
