//! Texts of users in messages: a message says where a text is wrong, and does not repeat a megabyte of it.

use std::borrow::Cow;

/// The most characters of a text in a message.
const MOST: usize = 160;
/// The most names of a list in a message.
const MOST_NAMES: usize = 200;

/// The text, or how it begins.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MOST) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}..", &text[..end])),
    }
}

/// The part of a text around a column, which counts characters from 1, and below it a mark.
pub(crate) fn marked(text: &str, column: usize) -> String {
    if text.chars().count() <= MOST {
        return format!("  {text}\n  {}^", " ".repeat(column.saturating_sub(1)));
    }
    let from = column.saturating_sub(1 + MOST / 2);
    let mut chars = text.chars().skip(from);
    let shown: String = chars.by_ref().take(MOST).collect();
    let (before, after) = (if from > 0 { ".." } else { "" }, if chars.next().is_some() { ".." } else { "" });
    format!("  {before}{shown}{after}\n  {}^", " ".repeat(before.len() + (column - 1).saturating_sub(from)))
}

/// Names with commas between them; of very many, the first.
pub(crate) fn list(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(MOST_NAMES).map(|name| excerpt(name)).collect();
    match names.len() {
        0 => "none".to_owned(),
        n if n > MOST_NAMES => format!("{} and {} more", shown.join(", "), n - MOST_NAMES),
        _ => shown.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_whole_and_long_ones_are_cut() {
        assert_eq!(excerpt("causal"), "causal");
        assert_eq!(excerpt(&"é".repeat(500)), format!("{}..", "é".repeat(160)));
        assert_eq!(marked("a + )", 5), "  a + )\n      ^");
        let names: Vec<String> = (0..300).map(|i| format!("a{i}")).collect();
        assert!(list(&names).ends_with("a199 and 100 more") && list(&[]) == "none");
    }

    #[test]
    fn the_mark_stands_below_the_column_of_a_long_text() {
        for column in [1, 3, 81, 82, 500, 999, 1000, 1001, 70_000] {
            let text: String = (1..100_000).map(|i| if i == column { 'X' } else { '-' }).collect();
            let text = &text[..1000.max(column)];
            let said = marked(text, column);
            let lines: Vec<&str> = said.lines().collect();
            assert!(lines[0].find('X').is_none_or(|at| Some(at) == lines[1].find('^')), "{said}");
            assert!(said.len() < 600, "{column}: {}", said.len());
        }
        // behind the last character
        let said = marked(&" ".repeat(65_535), 65_536);
        assert!(said.ends_with('^') && said.len() < 600, "{said}");
    }
}
