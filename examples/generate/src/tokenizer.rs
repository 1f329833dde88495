//! Text to tokens and back, by the tokenizer of a model file.

mod bytes;
mod stream;
mod utf8;

use minijinja::{Environment, context, value::Serde};
use serde::{Deserialize, Serialize};
use tokenizers::{
    AddedToken, DecoderWrapper, ModelWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper,
    TokenizerBuilder, TokenizerImpl,
    models::bpe::BPE,
    pre_tokenizers::{byte_level::ByteLevel, digits::Digits, sequence::Sequence},
};

use crate::{Error, model::gguf::Gguf};

pub use stream::TextStream;
pub(crate) use utf8::Utf8Stream;

/// The kind of a control token in GGUF files, which is one token wherever it stands.
const CONTROL: i64 = 3;

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

/// The tokenizer of a model: byte-level BPE as in GPT-2, with digits apart (SmolLM).
pub struct Tokenizer {
    inner: Encoder,
    /// The bytes of each token; none for a control token.
    bytes: Vec<Box<[u8]>>,
    template: Option<String>,
    eos: u32,
}

type Encoder =
    TokenizerImpl<ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("tokens", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// The tokenizer of a file.
    ///
    /// # Errors
    ///
    /// [`Error::Metadata`] for another tokenizer, or for lists that contradict each other.
    pub fn load(file: &Gguf) -> Result<Self, Error> {
        for (key, want, sentence) in [
            ("tokenizer.ggml.model", "gpt2", "`gpt2`: a byte-level BPE"),
            ("tokenizer.ggml.pre", "smollm", "`smollm`: the words of GPT-2, digits apart"),
        ] {
            if file.text(key)? != want {
                return Err(file.unsupported(key, sentence));
            }
        }
        let tokens = file.texts("tokenizer.ggml.tokens")?;
        let kinds = file.integers("tokenizer.ggml.token_type")?;
        if kinds.len() != tokens.len() {
            return Err(file.unsupported("tokenizer.ggml.token_type", "a kind for each token"));
        }
        let merges = file.texts("tokenizer.ggml.merges")?;
        let pairs: Option<Vec<_>> = merges.iter().map(|merge| merge.split_once(' ')).collect();
        let pairs = pairs.ok_or_else(|| file.unsupported("tokenizer.ggml.merges", "pairs of tokens"))?;
        let eos = file.token("tokenizer.ggml.eos_token_id")?;
        if eos as usize >= tokens.len() {
            return Err(file.unsupported("tokenizer.ggml.eos_token_id", "a token of the vocabulary"));
        }
        let control = |token: usize| kinds[token] == CONTROL;
        let bytes = tokens.iter().enumerate().map(|(i, token)| match control(i) {
            true => Some(Box::default()),
            false => bytes::of_token(token),
        });
        let bytes: Option<Vec<_>> = bytes.collect();
        let bytes = bytes.ok_or_else(|| file.unsupported("tokenizer.ggml.tokens", "tokens of the byte alphabet"))?;
        Ok(Tokenizer {
            inner: build(&tokens, &pairs, control).map_err(|error| Error::Tokenizer(error.to_string()))?,
            bytes,
            template: file.text("tokenizer.chat_template").ok().map(str::to_owned),
            eos,
        })
    }

    /// The token that ends a text.
    #[must_use]
    pub fn eos(&self) -> u32 {
        self.eos
    }

    /// Tokens of the vocabulary.
    #[must_use]
    pub fn vocab(&self) -> usize {
        self.bytes.len()
    }

    /// The tokens of a text. Control tokens that it spells out are one token each.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`]; byte-level BPE has tokens for every text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| Error::Tokenizer(error.to_string()))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The text of tokens, without control tokens. Bytes that are no UTF-8 become U+FFFD.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut stream = self.stream();
        let mut text: String = tokens.iter().map(|&token| stream.push(token)).collect();
        text.push_str(stream.finish());
        text
    }

    /// The text of tokens as they come.
    #[must_use]
    pub fn stream(&self) -> TextStream<'_> {
        TextStream::new(self)
    }

    /// The bytes of a token; none for a control token, and for one outside of the vocabulary.
    #[must_use]
    pub fn token_bytes(&self, token: u32) -> &[u8] {
        self.bytes.get(token as usize).map_or(&[], |bytes| bytes)
    }

    /// The prompt of a chat by the template of the file, up to where the assistant answers. SmolLM2's template begins
    /// with a system message of its own, unless the chat has one.
    ///
    /// # Errors
    ///
    /// A file without a template, or one that fails.
    pub fn chat(&self, messages: &[ChatMessage]) -> Result<String, Error> {
        let missing = || Error::Tokenizer("the model file has no chat template".to_owned());
        let template = self.template.as_deref().ok_or_else(missing)?;
        let environment = Environment::new();
        Ok(environment.render_str(template, context! { messages => Serde(messages), add_generation_prompt => true })?)
    }
}

fn build(
    tokens: &[&str],
    merges: &[(&str, &str)],
    control: impl Fn(usize) -> bool,
) -> Result<Encoder, tokenizers::Error> {
    let vocab = tokens.iter().zip(0u32..).map(|(token, id)| ((*token).to_owned(), id));
    let merges = merges.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let model = BPE::builder().vocab_and_merges(vocab.collect::<tokenizers::models::bpe::Vocab>(), merges).build()?;
    let words = ByteLevel::new(false, true, true);
    let digits = Sequence::new(vec![Digits::new(true).into(), words.into()]);
    let mut inner = TokenizerBuilder::new()
        .with_model(ModelWrapper::from(model))
        .with_normalizer(None::<NormalizerWrapper>)
        .with_pre_tokenizer(Some(digits.into()))
        .with_post_processor(None::<PostProcessorWrapper>)
        .with_decoder(None::<DecoderWrapper>)
        .build()?;
    let special = tokens.iter().enumerate().filter(|&(i, _)| control(i));
    let special: Vec<_> = special.map(|(_, token)| AddedToken::from(*token, true).normalized(false)).collect();
    inner.add_special_tokens(special)?;
    Ok(inner)
}
