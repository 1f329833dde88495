//! Between text and tokens.

use crate::{
    Error,
    tokenizer::{ChatMessage, Tokenizer},
};

/// A tokenizer with the chat template of its model.
pub trait Text: Send + Sync {
    /// The tokens of a text, without those of the begin or the end of a text.
    ///
    /// # Errors
    ///
    /// Those of the tokenizer.
    fn encode(&self, text: &str) -> Result<Vec<u32>, Error>;

    /// The tokens of a conversation up to where the assistant speaks next.
    ///
    /// # Errors
    ///
    /// Those of the tokenizer, and conversations that the template refuses.
    fn encode_chat(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, Error>;

    /// The bytes that a token adds to a text: a part of a character at times, and nothing for control tokens.
    fn bytes(&self, token: u32) -> Vec<u8>;

    /// How a token is shown by itself; control tokens by their names.
    fn name(&self, token: u32) -> String {
        String::from_utf8_lossy(&self.bytes(token)).into_owned()
    }
}

impl Text for Tokenizer {
    fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        Tokenizer::encode(self, text)
    }

    fn encode_chat(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, Error> {
        Tokenizer::encode(self, &self.chat(messages)?)
    }

    fn bytes(&self, token: u32) -> Vec<u8> {
        self.token_bytes(token).to_vec()
    }
}
