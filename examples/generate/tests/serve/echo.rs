//! A model that repeats its prompt, and a tokenizer with one token for each byte.

use std::time::Duration;

use attn_cache::Pages;
use generate::{
    Error,
    model::{Model, ModelLimits, SampleRow, StepInput},
    sampling::Sampled,
    serve::Text,
    tokenizer::ChatMessage,
};

/// The token that ends a text; `$` in a prompt says it.
pub(crate) const EOS: u32 = 256;
/// What a chat repeats is behind this byte of the prompt.
const SAY: u8 = 2;
/// A prompt with this byte has logits that are not finite.
pub(crate) const NOT_FINITE: char = '\u{7}';

/// Greedy, it says the prompt again and again, until a `$`. At a temperature it says letters by seed and position.
#[derive(Debug)]
pub(crate) struct Echo {
    pages: Pages,
    limits: ModelLimits,
    /// How long a step takes.
    step: Duration,
}

impl Echo {
    pub(crate) fn new(pages: usize, step: Duration, endless: bool) -> Self {
        let limits = ModelLimits {
            vocab: 257,
            context: 512,
            step_tokens: 1024,
            step_sequences: 64,
            step_rows: 64,
            top_logprobs: 5,
            endless,
            eos: EOS,
        };
        Echo { pages: Pages::new(pages, 16).expect("a pool"), limits, step }
    }
}

impl Model for Echo {
    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn pages(&self) -> &Pages {
        &self.pages
    }

    fn run(&mut self, input: &StepInput<'_>) -> Result<Vec<Sampled>, Error> {
        std::thread::sleep(self.step);
        Ok(input.rows.iter().map(draw).collect())
    }
}

fn draw(row: &SampleRow<'_>) -> Sampled {
    let token = row.params.score.unwrap_or_else(|| next(row));
    let others = (1..=row.params.top_logprobs as u32).map(|rank| ((token + rank - 1) % 256, -0.5 * rank as f32));
    Sampled { token, logprob: -0.5, top: others.collect() }
}

fn next(row: &SampleRow<'_>) -> u32 {
    if row.prompt.contains(&u32::from(NOT_FINITE)) {
        return u32::MAX;
    }
    let token = if row.params.temperature > 0.0 {
        let hash = (row.params.seed ^ (row.position as u64) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        u32::from(b'a') + (hash % 26) as u32
    } else {
        let begin = row.prompt.iter().rposition(|&token| token == u32::from(SAY)).map_or(0, |at| at + 1);
        let said = &row.prompt[begin..];
        match said[row.generated.len() % said.len()] {
            token if token == u32::from(b'$') => EOS,
            token => token,
        }
    };
    let is_allowed = |mask: &[u32], token: u32| mask[token as usize / 32] >> (token % 32) & 1 == 1;
    match &row.params.allowed {
        Some(mask) if !is_allowed(mask, token) => (0..=EOS).find(|&token| is_allowed(mask, token)).expect("a token"),
        _ => token,
    }
}

/// A token for each byte. The template of chats is `role:text` in lines, and then what is to be said.
#[derive(Debug)]
pub(crate) struct Bytes;

impl Text for Bytes {
    fn encode(&self, text: &str, most: usize) -> Result<Vec<u32>, Error> {
        let bytes = text.len();
        if bytes > most {
            return Err(Error::TooLong { bytes, least: bytes, most });
        }
        Ok(text.bytes().map(u32::from).collect())
    }

    fn encode_chat(&self, messages: &[ChatMessage], most: usize) -> Result<Vec<u32>, Error> {
        let lines: String = messages.iter().map(|message| format!("{}:{}\n", message.role, message.content)).collect();
        let last = messages.last().map_or("", |message| &message.content);
        self.encode(&format!("{lines}{}{last}", char::from(SAY)), most)
    }

    fn bytes(&self, token: u32) -> Vec<u8> {
        u8::try_from(token).into_iter().collect()
    }

    fn name(&self, token: u32) -> String {
        match token {
            EOS => "<eos>".into(),
            // parts of characters
            128..=255 => "\u{FFFD}".into(),
            _ => String::from_utf8_lossy(&self.bytes(token)).into_owned(),
        }
    }
}
