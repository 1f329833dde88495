//! Long texts, in parts that give the tokens of the whole.

/// Bytes of a part, at least: what it takes to tokenize a part is some hundred times that.
const PART: usize = 4096;
/// Bytes of a part, at most. Real words are shorter by far.
pub(super) const LONGEST: usize = 1 << 16;

/// The parts of a text. A part ends before a digit, or where a space follows something else: there each word of the
/// pre-tokenizer ends, whatever surrounds it. A text without such places is one part.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, after) = rest.split_at(border(rest));
        rest = after;
        Some(part)
    })
}

fn border(text: &str) -> usize {
    let mut last = None;
    for (at, character) in text.char_indices() {
        let begins = character.is_ascii_digit()
            || character.is_whitespace() && last.is_some_and(|last: char| !last.is_whitespace());
        if at >= PART && begins {
            return at;
        }
        last = Some(character);
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_text() {
        for text in [String::new(), "1".repeat(10_000), "ab c".repeat(5000), " ".repeat(9000), "é".repeat(9000)] {
            assert_eq!(parts(&text).collect::<String>(), text);
        }
        assert_eq!(parts(&"1".repeat(3 * PART)).count(), 3);
        assert_eq!(parts(&"a".repeat(3 * PART)).count(), 1, "one word");
    }
}
