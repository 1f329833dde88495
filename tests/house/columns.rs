//! Lines of at most 120 columns.

use crate::files::sources;

const COLUMNS: usize = 120;

/// Fixtures of misuse, whose lines and columns the compiler's messages name, and generated text.
const FIXTURES: [&str; 2] = ["/ui/fail/", "tests/variants/cuda/"];

#[test]
fn lines_have_at_most_120_columns() {
    let mut long = Vec::new();
    for source in sources().iter().filter(|source| !FIXTURES.iter().any(|fixture| source.path.contains(fixture))) {
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
