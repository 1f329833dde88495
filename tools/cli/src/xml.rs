//! Text in XML and HTML.

/// Text as the content of an element or as an attribute in double quotes. Characters that XML does not allow are
/// replaced.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            other if other.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn text_cannot_end_an_element_or_an_attribute() {
        assert_eq!(
            escaped("a\"b' onload=x></title><script>&amp;"),
            "a&quot;b' onload=x&gt;&lt;/title&gt;&lt;script&gt;&amp;amp;"
        );
        assert_eq!(escaped("\u{0}\u{1b}[1m\u{ffff}\n2 × 3"), "\u{fffd}\u{fffd}[1m\u{fffd} 2 × 3");
    }
}
