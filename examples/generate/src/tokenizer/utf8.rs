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
        let mut end = 0;
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            end += chunk.valid().len() + chunk.invalid().len();
            match std::str::from_utf8(chunk.invalid()) {
                // the begin of a character, where the bytes end
                Err(error) if error.error_len().is_none() && end == bytes.len() => {
                    self.incomplete = chunk.invalid().to_vec();
                }
                Err(_) => text.push(char::REPLACEMENT_CHARACTER),
                Ok(_) => {}
            }
        }
        text
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
