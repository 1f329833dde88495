//! Prompt lookup decoding: what followed the last tokens when they occurred before is likely to follow again.
//!
//! The method is that of [prompt-lookup-decoding](https://github.com/apoorvumang/prompt-lookup-decoding), which vLLM
//! calls n-gram speculation. A guess needs no model. It pays where texts repeat their prompt: code, summaries, chats.

use attn_cache::Token;
use hashbrown::HashMap;

/// Tokens that have to be the same before a guess.
const NGRAM: usize = 3;

/// Where each run of [`NGRAM`] tokens of a text occurred last.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptLookup {
    /// The position behind the run.
    behind: HashMap<[Token; NGRAM], u32>,
    /// Positions that are in the map.
    indexed: usize,
}

impl PromptLookup {
    /// Adds up to `most` guesses to a text, and returns how many. The text has grown since the last call, and lost
    /// nothing but guesses.
    pub(super) fn guess(&mut self, text: &mut Vec<Token>, most: usize) -> usize {
        let Some(&last) = text.last_chunk::<NGRAM>() else { return 0 };
        if self.indexed == 0 {
            self.behind.reserve(2 * text.len());
        }
        // the last run itself has nothing behind it
        for behind in self.indexed.max(NGRAM)..text.len() {
            if let Some(&run) = text[..behind].last_chunk() {
                // a text is shorter than 2^30
                self.behind.insert(run, behind as u32);
            }
        }
        self.indexed = text.len();
        let Some(&from) = self.behind.get(&last) else { return 0 };
        // guesses past the end of the text repeat the first ones
        for next in (from as usize..).take(most) {
            text.push(text[next]);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(text: &[Token], most: usize) -> Vec<Token> {
        let mut grown = text.to_vec();
        let count = PromptLookup::default().guess(&mut grown, most);
        assert_eq!(count, grown.len() - text.len());
        grown.split_off(text.len())
    }

    #[test]
    fn guesses_are_what_followed_the_last_occurrence() {
        assert_eq!(guess(&[1, 2, 3, 7, 8, 1, 2, 3, 9, 4, 1, 2, 3], 2), [9, 4]);
        assert_eq!(guess(&[1, 2, 3, 7, 8, 1, 2, 3], 2), [7, 8]);
        assert_eq!(guess(&[1, 2, 3, 4], 2), [0u32; 0]);
        assert_eq!(guess(&[1, 2], 2), [0u32; 0]);
        assert_eq!(guess(&[5, 5, 5], 4), [0u32; 0]);
    }

    #[test]
    fn guesses_go_on_past_the_end() {
        assert_eq!(guess(&[5, 5, 5, 5], 3), [5, 5, 5]);
        assert_eq!(guess(&[1, 2, 3, 1, 2, 3], 7), [1, 2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn text_that_grows_is_indexed_once() {
        let mut lookup = PromptLookup::default();
        let mut text = Vec::new();
        let tokens = [4, 1, 2, 3, 9, 9, 1, 2, 3, 9, 9, 1, 7, 1, 2, 3];
        for (position, &token) in tokens.iter().enumerate() {
            text.push(token);
            let guesses = lookup.guess(&mut text, 2);
            let fresh = guess(&tokens[..=position], 2);
            assert_eq!(text.split_off(position + 1), fresh);
            assert_eq!(guesses, fresh.len());
        }
    }
}
