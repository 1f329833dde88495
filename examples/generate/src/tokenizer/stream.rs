//! The text of tokens as they come.

use super::Tokenizer;

/// Makes text of tokens one by one. A character whose bytes are in several tokens appears with the last of them.
#[derive(Clone, Debug)]
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    /// The first bytes of a character: at most 3.
    pending: Vec<u8>,
}

impl<'a> TextStream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> Self {
        TextStream { tokenizer, pending: Vec::new() }
    }

    /// The text that is known with this token. Bytes that can never become a character are U+FFFD.
    pub fn push(&mut self, token: u32) -> String {
        self.pending.extend_from_slice(self.tokenizer.token_bytes(token));
        let (mut text, mut done) = (String::new(), 0);
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            done += chunk.valid().len();
            let (bad, rest) = (chunk.invalid(), self.pending.len() - done);
            if bad.len() == rest && std::str::from_utf8(bad).is_err_and(|error| error.error_len().is_none()) {
                break; // more may follow
            }
            if !bad.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                done += bad.len();
            }
        }
        self.pending.drain(..done);
        text
    }

    /// What is left at the end: U+FFFD for a character that was not finished.
    #[must_use]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}
