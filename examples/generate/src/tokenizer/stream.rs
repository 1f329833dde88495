//! The text of tokens as they come.

use super::{Tokenizer, utf8::Utf8Stream};

/// Makes text of tokens one by one. A character whose bytes are in several tokens appears with the last of them.
#[derive(Clone, Debug)]
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    utf8: Utf8Stream,
}

impl Tokenizer {
    /// The text of tokens as they come.
    pub fn stream(&self) -> TextStream<'_> {
        TextStream { tokenizer: self, utf8: Utf8Stream::default() }
    }
}

impl TextStream<'_> {
    /// The text that is known with this token. Bytes that can never become a character are U+FFFD.
    pub fn push(&mut self, token: u32) -> String {
        self.utf8.push(self.tokenizer.token_bytes(token))
    }

    /// What is left at the end: U+FFFD for a character that was not finished.
    pub fn finish(mut self) -> &'static str {
        self.utf8.finish()
    }
}
