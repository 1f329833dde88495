//! The text of one choice, while its tokens arrive.

use std::{collections::VecDeque, sync::Arc};

use super::stop::StopStrings;
use crate::{sampling::Sampled, tokenizer::Utf8Stream};

/// Text that may be sent, and the tokens that it begins to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chunk {
    /// The text.
    pub(crate) text: String,
    /// Tokens, each with the offset of its text within that of the choice, in characters.
    pub(crate) tokens: Vec<(Sampled, usize)>,
}

/// Makes text of tokens: characters are complete, and stop strings never show.
#[derive(Debug)]
pub(crate) struct ChoiceText {
    utf8: Utf8Stream,
    stops: StopStrings,
    /// Tokens whose text was not sent yet, each with the characters before it.
    waiting: VecDeque<(Sampled, usize)>,
    /// Characters of text, decoded and sent.
    decoded: usize,
    sent: usize,
}

impl ChoiceText {
    pub(crate) fn new(stops: Arc<[Arc<str>]>) -> Self {
        ChoiceText {
            utf8: Utf8Stream::default(),
            stops: StopStrings::new(stops),
            waiting: VecDeque::new(),
            decoded: 0,
            sent: 0,
        }
    }

    /// Takes the next token, and its bytes. The second part is the stop string that was found: the text has ended.
    pub(crate) fn push(&mut self, sampled: Sampled, bytes: &[u8]) -> (Chunk, Option<String>) {
        self.waiting.push_back((sampled, self.decoded));
        let text = self.utf8.push(bytes);
        self.pass(&text)
    }

    /// The rest, when no token follows.
    pub(crate) fn finish(&mut self) -> (Chunk, Option<String>) {
        let text = self.utf8.finish();
        let (mut chunk, stop) = self.pass(text);
        if stop.is_none() {
            let rest = self.stops.finish();
            self.sent += rest.chars().count();
            chunk.text += &rest;
            chunk.tokens.extend(self.waiting.drain(..));
        }
        (chunk, stop)
    }

    fn pass(&mut self, text: &str) -> (Chunk, Option<String>) {
        self.decoded += text.chars().count();
        let passed = self.stops.push(text);
        self.sent += passed.text.chars().count();
        let shown = self.waiting.iter().take_while(|(_, start)| *start < self.sent).count();
        let tokens = self.waiting.drain(..shown).collect();
        let stop = passed.stop.map(|index| self.stops.get(index).to_owned());
        (Chunk { text: passed.text, tokens }, stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(token: u32) -> Sampled {
        Sampled { token, logprob: -1.0, top: Vec::new() }
    }

    /// The ids and offsets of a chunk's tokens.
    fn tokens(chunk: &Chunk) -> Vec<(u32, usize)> {
        chunk.tokens.iter().map(|(sampled, start)| (sampled.token, *start)).collect()
    }

    #[test]
    fn tokens_of_a_stop_string_do_not_show() {
        let mut text = ChoiceText::new([Arc::from("STOP")].into());
        assert_eq!(text.push(token(1), b"go S").0.text, "go ");
        assert_eq!(text.push(token(2), b"TO"), (Chunk::default(), None));
        let (chunk, stop) = text.push(token(3), b"P more");
        assert_eq!((chunk, stop.as_deref()), (Chunk::default(), Some("STOP")));
    }

    #[test]
    fn what_is_held_back_comes_at_the_end() {
        let mut text = ChoiceText::new([Arc::from("STOP")].into());
        assert_eq!(text.push(token(1), b"STO").0, Chunk::default());
        assert_eq!(text.push(token(2), b"\xF0\x9F").0, Chunk::default());
        let (chunk, stop) = text.finish();
        assert_eq!((chunk.text.as_str(), tokens(&chunk), stop), ("STO\u{FFFD}", vec![(1, 0), (2, 3)], None));
    }
}
