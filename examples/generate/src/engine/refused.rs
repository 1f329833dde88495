//! Why a request is not run.

/// The end of a range of counts.
fn up_to(most: usize) -> String {
    if most == usize::MAX { "or more".into() } else { format!("to {most}") }
}

/// A request that is refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// No token to begin with.
    #[error("the prompt is empty; a model needs one token at least, such as that of the beginning of a text")]
    EmptyPrompt,
    /// The prompt leaves no room for a token.
    #[error("the prompt has {tokens} tokens; at most {most} leave room for one more in the context")]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that it may have.
        most: usize,
    },
    /// A token that the model does not have.
    #[error("{what} holds token {token}; the vocabulary ends at {}", .vocab - 1)]
    TokenOutsideVocabulary {
        /// Where it is.
        what: &'static str,
        /// The token.
        token: u32,
        /// Tokens of the vocabulary.
        vocab: usize,
    },
    /// A character that the vocabulary of the model cannot spell.
    #[error("the text has {character:?}, and the model has no token for its byte 0x{byte:02x}; leave it out")]
    NoToken {
        /// The character.
        character: char,
        /// The first of its bytes that has no token.
        byte: u8,
    },
    /// A number outside of its range.
    #[error("{name} is {value}; it must be {range}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// A count outside of its range.
    #[error("{name} is {value}; it must be 1 {}", up_to(*.most))]
    Count {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: usize,
        /// The most that it may be.
        most: usize,
    },
    /// A mask of tokens that does not fit the vocabulary, or allows nothing.
    #[error(
        "the mask of allowed tokens has {words} words; {want} cover the vocabulary, and one bit at least must be set"
    )]
    AllowedMask {
        /// Its words.
        words: usize,
        /// The words of the vocabulary.
        want: usize,
    },
    /// More pages than there are, for the prompt and all tokens that may follow.
    #[error("the request may need {need} pages, and can have {total} ({free} are free now); ask for fewer tokens")]
    NeverFits {
        /// Pages that one choice of the request may need at once; all of its choices for an endless text.
        need: usize,
        /// Free pages, with those that can be evicted.
        free: usize,
        /// Pages that the request could have if it were alone.
        total: usize,
    },
    /// An endless text that this model does not run.
    #[error("an endless text is refused: {why}")]
    Endless {
        /// What it would take.
        why: String,
    },
    /// Too many requests wait.
    #[error("{waiting} requests are waiting, which is the most; try again later")]
    Busy {
        /// Requests that wait.
        waiting: usize,
    },
    /// The engine ends, and takes no more requests.
    #[error("the engine is shutting down")]
    ShuttingDown,
    /// The engine failed.
    #[error("the engine has stopped: {why}")]
    Stopped {
        /// What happened.
        why: String,
    },
}
