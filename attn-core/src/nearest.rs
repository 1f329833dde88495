//! Suggestions for unknown names.

/// The candidate nearest to `name`, if at most a third of its letters differ. Case does not matter, nor whether a word
/// ends with `-` or `_`.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |s: &str| s.to_ascii_lowercase().replace('-', "_");
    let name = plain(name);
    let letters = name.chars().count();
    candidates
        .into_iter()
        // the distance is at least the difference of the lengths, and takes the time of their product
        .filter(|c| c.chars().count().abs_diff(letters) <= c.chars().count().max(letters).div_ceil(3))
        .map(|c| (strsim::osa_distance(&name, &plain(c)), c))
        .filter(|&(d, c)| d <= c.chars().count().max(name.chars().count()).div_ceil(3))
        .min()
        .map(|(_, c)| c)
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
