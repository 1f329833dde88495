//! Between text and tokens.

use crate::{
    Error,
    tokenizer::{ChatMessage, Tokenizer},
};

/// A tokenizer with the chat template of its model. What looks like a control token in a text of a user is text, and a
/// text of more than `most` tokens is [`Error::TooLong`], if possible before it is tokenized.
pub trait Text: Send + Sync {
    /// The tokens of a text, without those of the begin or the end of a text.
    fn encode(&self, text: &str, most: usize) -> Result<Vec<u32>, Error>;

    /// The tokens of a conversation up to where the assistant speaks next.
    ///
    /// # Errors
    ///
    /// Those of the tokenizer, and conversations that the template refuses.
    fn encode_chat(&self, messages: &[ChatMessage], most: usize) -> Result<Vec<u32>, Error>;

    /// The bytes that a token adds to a text: a part of a character at times, and nothing for control tokens.
    fn bytes(&self, token: u32) -> Vec<u8>;

    /// How a token is shown by itself: control tokens by their names, and a part of a character by its bytes, as
    /// OpenAI's API has it (`bytes:\xe2\x80`).
    fn name(&self, token: u32) -> String {
        shown(&self.bytes(token))
    }
}

impl Text for Tokenizer {
    fn encode(&self, text: &str, most: usize) -> Result<Vec<u32>, Error> {
        self.encode_text(text, most)
    }

    fn encode_chat(&self, messages: &[ChatMessage], most: usize) -> Result<Vec<u32>, Error> {
        Tokenizer::encode_chat(self, messages, most)
    }

    fn bytes(&self, token: u32) -> Vec<u8> {
        self.token_bytes(token).to_vec()
    }

    fn name(&self, token: u32) -> String {
        match self.token_name(token) {
            Some(name) => name.to_owned(),
            None => shown(self.token_bytes(token)),
        }
    }
}

/// The text of bytes, or the bytes of what is a part of a character.
fn shown(bytes: &[u8]) -> String {
    let escaped = |_| bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    std::str::from_utf8(bytes).map_or_else(|error| format!("bytes:{}", escaped(error)), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_characters_are_shown_by_their_bytes() {
        assert_eq!((shown("é".as_bytes()), shown(b"\xc3")), ("é".into(), "bytes:\\xc3".into()));
        assert_ne!(shown(b"\xe2\x80"), shown(b"\xe2\x81"));
    }
}
