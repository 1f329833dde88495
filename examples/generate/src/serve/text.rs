//! Between text and tokens.

use crate::Error;

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
    fn encode_chat(&self, messages: &[Message]) -> Result<Vec<u32>, Error>;

    /// The bytes that a token adds to a text: a part of a character at times, and nothing for control tokens.
    fn bytes(&self, token: u32) -> Vec<u8>;

    /// How a token is shown by itself; control tokens by their names.
    fn name(&self, token: u32) -> String {
        String::from_utf8_lossy(&self.bytes(token)).into_owned()
    }
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}
