//! Text from bytes that arrive in parts.

/// Decodes UTF-8 whose characters may be split between parts. Bytes that are no UTF-8 become U+FFFD.
#[derive(Clone, Debug, Default)]
pub(crate) struct Utf8Stream {
    /// The begin of a character.
    incomplete: Vec<u8>,
}

impl Utf8Stream {
    /// The characters that are complete now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.incomplete.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.incomplete);
        let mut text = String::with_capacity(bytes.len());
        let mut rest = &bytes[..];
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(valid).expect("valid up to here"));
                    let Some(len) = error.error_len() else {
                        self.incomplete = after.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &after[len..];
                }
            }
        }
    }

    /// What is left when no bytes follow.
    pub(crate) fn finish(&mut self) -> &'static str {
        let incomplete = !std::mem::take(&mut self.incomplete).is_empty();
        if incomplete { "\u{FFFD}" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_characters_wait_for_the_rest() {
        let mut stream = Utf8Stream::default();
        let parts: [&[u8]; 5] = [b"caf\xC3", b"\xA9 \xF0\x9F", b"\x92", b"\x96", b"!"];
        let texts: Vec<String> = parts.iter().map(|part| stream.push(part)).collect();
        assert_eq!(texts, ["caf", "é ", "", "💖", "!"]);
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn what_is_no_utf8_is_replaced_as_the_standard_library_does() {
        let samples: [&[u8]; 6] =
            [b"\xFF", b"a\x80b", b"\xC3(", b"\xF0\x9Fx", b"\xED\xA0\x80", b"ok\xE4\xB8\x96\xE4\xB8"];
        for bytes in samples {
            let mut stream = Utf8Stream::default();
            let mut text: String = bytes.iter().map(|&byte| stream.push(&[byte])).collect();
            text += stream.finish();
            assert_eq!(text, String::from_utf8_lossy(bytes), "{bytes:?}");
        }
    }
}
