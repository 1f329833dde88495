//! Text to tokens and back, by the tokenizer of a model file.

mod bytes;
mod chat;
mod cut;
mod spelled;
mod stream;
mod utf8;

use hashbrown::{HashMap, HashSet};
use tokenizers::{
    DecoderWrapper, ModelWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, TokenizerBuilder,
    TokenizerImpl,
    models::bpe::BPE,
    pre_tokenizers::{byte_level::ByteLevel, digits::Digits, sequence::Sequence},
};

use crate::{
    Error,
    engine::Refused,
    model::gguf::{Gguf, keys},
};
use chat::{Rendered, Template};
use spelled::{Part, Spelled};

pub use chat::ChatMessage;
pub use stream::TextStream;
pub(crate) use utf8::Utf8Stream;

/// What a token is, in GGUF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A token of the byte alphabet.
    Normal,
    /// No text; one token where its name stands, but for texts of users.
    Control,
    /// One token wherever its text stands, such as `<think>`.
    UserDefined,
    /// It fills the vocabulary up.
    Unused,
}

impl Kind {
    fn new(kind: i64) -> Option<Self> {
        match kind {
            1 => Some(Kind::Normal),
            // the token for what is unknown, which byte-level BPE never needs
            2 | 3 => Some(Kind::Control),
            4 => Some(Kind::UserDefined),
            5 => Some(Kind::Unused),
            _ => None,
        }
    }
}

/// The roles of messages.
const ROLES: [&str; 3] = ["system", "user", "assistant"];

/// The tokenizer of a model: byte-level BPE as in GPT-2, with digits apart (SmolLM).
pub struct Tokenizer {
    inner: Encoder,
    /// The bytes of each token; none for a control token.
    bytes: Vec<Box<[u8]>>,
    /// The names of tokens without text.
    names: HashMap<u32, String>,
    controls: Spelled,
    /// The control tokens that marks of characters do not take apart.
    bare_controls: Vec<String>,
    user_defined: Spelled,
    /// Bytes of the longest token.
    longest: usize,
    /// The bytes that have a token of their own. A text with others has no tokens.
    known: [bool; 256],
    template: Option<Template>,
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
        file.check_keys("tokenizer.", keys::TOKENIZER)?;
        let tokens = file.texts("tokenizer.ggml.tokens")?;
        let kinds: Option<Vec<Kind>> = file.integers("tokenizer.ggml.token_type")?.into_iter().map(Kind::new).collect();
        let kinds = kinds.filter(|kinds| kinds.len() == tokens.len());
        let kinds =
            kinds.ok_or_else(|| file.unsupported("tokenizer.ggml.token_type", "a kind, 1 to 5, for each token"))?;
        let merges = file.texts("tokenizer.ggml.merges")?;
        let pairs: Option<Vec<_>> = merges.iter().map(|merge| merge.split_once(' ')).collect();
        let pairs = pairs.ok_or_else(|| file.unsupported("tokenizer.ggml.merges", "pairs of tokens"))?;
        let named = tokens.iter().zip(&kinds).filter(|&(_, &kind)| kind != Kind::Unused).map(|(token, _)| *token);
        check_once(file, "tokenizer.ggml.tokens", named)?;
        check_once(file, "tokenizer.ggml.merges", merges.iter().copied())?;
        let eos = file.token("tokenizer.ggml.eos_token_id")?;
        if eos as usize >= tokens.len() {
            return Err(file.unsupported("tokenizer.ggml.eos_token_id", "a token of the vocabulary"));
        }
        for key in ["tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"] {
            if file.has_key(key) && file.token(key)? != eos {
                return Err(file.unsupported(key, "the token of `eos_token_id`: one token ends texts"));
            }
        }
        let of_kind = |kind: Kind| {
            let tokens = tokens.iter().zip(&kinds).zip(0u32..).filter(move |((_, of), _)| **of == kind);
            tokens.map(|((text, _), id)| (id, *text))
        };
        let bytes = tokens.iter().zip(&kinds).map(|(token, kind)| match kind {
            Kind::Normal => bytes::of_token(token),
            Kind::UserDefined => Some(token.as_bytes().into()),
            Kind::Control | Kind::Unused => Some(Box::default()),
        });
        let bytes: Option<Vec<Box<[u8]>>> = bytes.collect();
        let bytes = bytes.ok_or_else(|| file.unsupported("tokenizer.ggml.tokens", "tokens of the byte alphabet"))?;
        let mut known = [false; 256];
        for (bytes, _) in bytes.iter().zip(&kinds).filter(|&(_, &kind)| kind == Kind::Normal) {
            if let [byte] = **bytes {
                known[usize::from(byte)] = true;
            }
        }
        // control tokens never come from merges
        let words = of_kind(Kind::Normal).chain(of_kind(Kind::UserDefined));
        let names = of_kind(Kind::Control).chain(of_kind(Kind::Unused)).map(|(id, text)| (id, text.to_owned()));
        Ok(Tokenizer {
            inner: build(words, &pairs).map_err(|error| Error::Tokenizer(error.to_string()))?,
            longest: bytes.iter().map(|bytes| bytes.len()).max().unwrap_or(0).max(1),
            known,
            bytes,
            names: names.collect(),
            controls: Spelled::new(of_kind(Kind::Control))?,
            bare_controls: of_kind(Kind::Control).map(|(_, text)| text.to_owned()).filter(|text| bare(text)).collect(),
            user_defined: Spelled::new(of_kind(Kind::UserDefined))?,
            template: template(file, &tokens)?,
            eos,
        })
    }

    /// The token that ends a text.
    pub fn eos(&self) -> u32 {
        self.eos
    }

    /// The tokens of a text. Control tokens that it spells out are one token each: for texts of programs. For those of
    /// users there is [`Tokenizer::encode_text`].
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`]; [`Refused::NoToken`] for a character that the vocabulary cannot spell.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Error> {
        let mut tokens = Vec::new();
        for part in self.controls.split(text) {
            match part {
                Part::Token(token) => tokens.push(token),
                Part::Text(text) => self.encode_into(&mut tokens, text, usize::MAX)?,
            }
        }
        Ok(tokens)
    }

    /// The tokens of a text of a user. What looks like a control token is text.
    ///
    /// # Errors
    ///
    /// [`Error::TooLong`] for more than `most` tokens, found before all of them are made. [`Refused::NoToken`] for a
    /// character that the vocabulary cannot spell. [`Error::LongWord`].
    pub fn encode_text(&self, text: &str, most: usize) -> Result<Vec<u32>, Error> {
        let mut tokens = Vec::new();
        self.encode_into(&mut tokens, text, most)?;
        Ok(tokens)
    }

    /// The tokens of a chat by the template of the file, up to where the assistant answers. Control tokens are those of
    /// the template: what looks like one in a message is text.
    ///
    /// # Errors
    ///
    /// Those of [`Tokenizer::chat`] and [`Tokenizer::encode_text`]. [`Error::Chat`] for a template that would make
    /// control tokens of a message, and for other roles than those of [`ChatMessage`].
    pub fn encode_chat(&self, messages: &[ChatMessage], most: usize) -> Result<Vec<u32>, Error> {
        if let Some(role) = messages.iter().map(|message| &*message.role).find(|role| !ROLES.contains(role)) {
            // templates make control tokens of roles
            let role: String = role.chars().take(40).collect();
            return Err(Error::Chat(format!("the role {role:?} is none of {}", ROLES.join(", "))));
        }
        let said = || messages.iter().map(|message| &*message.content);
        let bytes = said().map(str::len).sum();
        self.check_size(bytes, most)?;
        if let Some(bare) = self.bare_controls.iter().find(|&bare| said().any(|said| said.contains(bare))) {
            return Err(Error::Chat(format!("a message has {bare:?}, which is a control token of the model")));
        }
        let controls = |text: &str| {
            let tokens = self.controls.split(text).filter_map(|part| match part {
                Part::Token(token) => Some(token),
                Part::Text(_) => None,
            });
            tokens.collect::<Vec<_>>()
        };
        let Rendered { text, mark } = self.template()?.render_marked(messages, controls)?;
        let mut tokens = Vec::new();
        for part in self.controls.split(&text) {
            match part {
                Part::Token(token) => tokens.push(token),
                Part::Text(text) => self.encode_into(&mut tokens, &chat::unmarked(text, mark), most)?,
            }
            check_count(tokens.len(), bytes, most)?;
        }
        Ok(tokens)
    }

    /// Refuses a text that has more than `most` tokens by its size alone.
    fn check_size(&self, bytes: usize, most: usize) -> Result<(), Error> {
        check_count(bytes.div_ceil(self.longest), bytes, most)
    }

    /// Adds the tokens of a text without control tokens, as long as there are at most `most`.
    fn encode_into(&self, tokens: &mut Vec<u32>, text: &str, most: usize) -> Result<(), Error> {
        self.check_size(text.len(), most)?;
        for found in self.user_defined.split(text) {
            let words = match found {
                Part::Text(words) => words,
                Part::Token(token) => {
                    tokens.push(token);
                    check_count(tokens.len(), text.len(), most)?;
                    continue;
                }
            };
            self.check_known(words)?;
            for part in cut::parts(words) {
                if part.len() > cut::LONGEST {
                    return Err(Error::LongWord { bytes: part.len(), most: cut::LONGEST });
                }
                let encoding = self.inner.encode_fast(part, false);
                let encoding = encoding.map_err(|error| Error::Tokenizer(error.to_string()))?;
                tokens.extend_from_slice(encoding.get_ids());
                check_count(tokens.len(), text.len(), most)?;
            }
        }
        Ok(())
    }

    /// Refuses a text with bytes that have no token: BPE would leave them out.
    fn check_known(&self, text: &str) -> Result<(), Error> {
        let lacking = |character: char| {
            let byte = character.encode_utf8(&mut [0; 4]).bytes().find(|&byte| !self.known[usize::from(byte)])?;
            Some(Refused::NoToken { character, byte })
        };
        text.chars().find_map(lacking).map_or(Ok(()), |refused| Err(refused.into()))
    }

    /// The text of tokens, without control tokens. Bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut stream = self.stream();
        let mut text: String = tokens.iter().map(|&token| stream.push(token)).collect();
        text.push_str(stream.finish());
        text
    }

    /// The bytes of a token; none for a control token, and for one outside of the vocabulary.
    pub fn token_bytes(&self, token: u32) -> &[u8] {
        self.bytes.get(token as usize).map_or(&[], |bytes| bytes)
    }

    /// How a token without text is called; `None` for one with text, and for one outside of the vocabulary.
    pub fn token_name(&self, token: u32) -> Option<&str> {
        self.names.get(&token).map(String::as_str)
    }

    /// The prompt of a chat by the template of the file, up to where the assistant answers. SmolLM2's template begins
    /// with a system message of its own, unless the chat has one.
    ///
    /// # Errors
    ///
    /// A file without a template, or one that fails.
    pub fn chat(&self, messages: &[ChatMessage]) -> Result<String, Error> {
        self.template()?.render(messages)
    }

    fn template(&self) -> Result<&Template, Error> {
        self.template.as_ref().ok_or_else(|| Error::Chat("the model file has no chat template".to_owned()))
    }
}

/// Refuses a text of `bytes` bytes that has more tokens than there may be.
fn check_count(least: usize, bytes: usize, most: usize) -> Result<(), Error> {
    if least > most { Err(Error::TooLong { bytes, least, most }) } else { Ok(()) }
}

/// Whether the marks of a chat leave a text as it is: they are around characters, spaces aside.
fn bare(text: &str) -> bool {
    !text.is_empty() && (text.chars().nth(1).is_none() || text.trim().is_empty())
}

/// Refuses a list that has a text twice.
fn check_once<'a>(file: &Gguf, key: &str, mut texts: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut seen = HashSet::new();
    let Some(text) = texts.find(|text| !seen.insert(*text)) else { return Ok(()) };
    let got = format!("a list that has {:?} twice", text.chars().take(40).collect::<String>());
    Err(Error::Metadata { file: file.file().into(), key: key.into(), got, want: "texts, each once" })
}

/// The chat template of a file, which may name the special tokens of the file.
fn template(file: &Gguf, tokens: &[&str]) -> Result<Option<Template>, Error> {
    if !file.has_key("tokenizer.chat_template") {
        return Ok(None);
    }
    let mut names = Vec::new();
    for (name, key) in [
        ("bos_token", "tokenizer.ggml.bos_token_id"),
        ("eos_token", "tokenizer.ggml.eos_token_id"),
        ("unk_token", "tokenizer.ggml.unknown_token_id"),
        ("pad_token", "tokenizer.ggml.padding_token_id"),
        ("sep_token", "tokenizer.ggml.seperator_token_id"),
        ("cls_token", "tokenizer.ggml.cls_token_id"),
        ("mask_token", "tokenizer.ggml.mask_token_id"),
    ] {
        if file.has_key(key) {
            let text = tokens.get(file.token(key)? as usize);
            names.push((name, *text.ok_or_else(|| file.unsupported(key, "a token of the vocabulary"))?));
        }
    }
    Template::new(file.text("tokenizer.chat_template")?, &names).map(Some)
}

fn build<'a>(
    words: impl Iterator<Item = (u32, &'a str)>,
    merges: &[(&str, &str)],
) -> Result<Encoder, tokenizers::Error> {
    let vocab = words.map(|(id, token)| (token.to_owned(), id));
    let merges = merges.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    let model = BPE::builder().vocab_and_merges(vocab.collect::<tokenizers::models::bpe::Vocab>(), merges).build()?;
    let words = ByteLevel::new(false, true, true);
    let digits = Sequence::new(vec![Digits::new(true).into(), words.into()]);
    TokenizerBuilder::new()
        .with_model(ModelWrapper::from(model))
        .with_normalizer(None::<NormalizerWrapper>)
        .with_pre_tokenizer(Some(digits.into()))
        .with_post_processor(None::<PostProcessorWrapper>)
        .with_decoder(None::<DecoderWrapper>)
        .build()
}
