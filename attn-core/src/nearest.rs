//! Suggestions for unknown names.

/// The candidate nearest to `name`, if at most a third of its letters differ.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|c| (distance(name, c), c))
        .filter(|&(d, c)| d <= c.chars().count().max(name.chars().count()).div_ceil(3))
        .min()
        .map(|(_, c)| c)
}

/// The edit distance of `a` and `b` (insertions, deletions, replacements, swaps of neighbours), ignoring case and
/// `-`/`_`.
fn distance(a: &str, b: &str) -> usize {
    let letters =
        |s: &str| -> Vec<char> { s.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect() };
    let (a, b) = (letters(a), letters(b));
    // rows[i][j]: distance of the first i letters of a and the first j of b
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn misspelled_names_are_found_and_other_words_are_not() {
        let names = ["alibi", "causal", "sliding_window", "soft_cap"];
        assert_eq!(nearest("casual", names), Some("causal"));
        assert_eq!(nearest("softcap", names), Some("soft_cap"));
        assert_eq!(nearest("Sliding-Window", names), Some("sliding_window"));
        assert_eq!(nearest("dropout", names), None);
        assert_eq!(nearest("", names), None);
    }
}
