//! Stop strings: a text ends before the first of them, wherever the borders of tokens are.

use std::sync::Arc;

/// Looks for stop strings in a text that arrives in parts.
///
/// What could be the begin of a stop string is held back. The match that *ends* first wins, so that the outcome does
/// not depend on the parts.
#[derive(Clone, Debug)]
pub(crate) struct StopStrings {
    stops: Arc<[Arc<str>]>,
    held: String,
}

/// What a part of text brings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The text that is certain not to belong to a stop string.
    pub(crate) text: String,
    /// The index of the stop string that was found; nothing follows.
    pub(crate) stop: Option<usize>,
}

impl StopStrings {
    /// No string may be empty. All choices of a request share them.
    pub(crate) fn new(stops: Arc<[Arc<str>]>) -> Self {
        debug_assert!(stops.iter().all(|stop| !stop.is_empty()));
        StopStrings { stops, held: String::new() }
    }

    /// The string with an index.
    pub(crate) fn get(&self, index: usize) -> &str {
        &self.stops[index]
    }

    /// Takes the next part.
    pub(crate) fn push(&mut self, part: &str) -> Passed {
        self.held.push_str(part);
        let matches = self.stops.iter().enumerate().filter_map(|(index, stop)| {
            let start = self.held.find(&**stop)?;
            Some((start + stop.len(), start, index))
        });
        if let Some((_, start, index)) = matches.min() {
            self.held.truncate(start);
            return Passed { text: std::mem::take(&mut self.held), stop: Some(index) };
        }
        let keep = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        Passed { text: std::mem::replace(&mut self.held, rest), stop: None }
    }

    /// What was held back, when the text has ended.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// The bytes of the longest end of `text` that is a begin of `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len() - 1);
    (1..=longest).rev().find(|&len| text.as_bytes().ends_with(&stop.as_bytes()[..len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    use super::*;

    /// The text that comes out, and the stop string that ended it.
    fn run(stops: &[&str], parts: &[&str]) -> (String, Option<usize>) {
        let mut strings = StopStrings::new(stops.iter().map(|&stop| stop.into()).collect());
        let mut text = String::new();
        for part in parts {
            let passed = strings.push(part);
            text += &passed.text;
            if passed.stop.is_some() {
                return (text, passed.stop);
            }
        }
        (text + &strings.finish(), None)
    }

    #[test]
    fn borders_of_pieces_do_not_matter() {
        assert_eq!(run(&["END"], &["abE", "N", "D", "xyz"]), ("ab".into(), Some(0)));
        assert_eq!(run(&["bc", "abcd"], &["abcd"]), ("a".into(), Some(0)));
        assert_eq!(run(&["ab", "b"], &["ab"]), (String::new(), Some(0)));
        assert_eq!(run(&["世界"], &["世", "人"]), ("世人".into(), None));
        assert_eq!(run(&[], &["a", "b"]), ("ab".into(), None));
    }

    #[test]
    fn text_is_held_back_only_while_it_could_match() {
        let mut strings = StopStrings::new([Arc::from("</s>")].into());
        assert_eq!(strings.push("one <").text, "one ");
        assert_eq!(strings.push("/").text, "");
        assert_eq!(strings.push("b").text, "</b");
    }

    #[test]
    fn random_pieces_give_what_the_whole_gives() {
        let mut rng = SmallRng::seed_from_u64(3);
        for _ in 0..5000 {
            let mut word = |low: usize, high: usize| {
                let length = rng.random_range(low..=high);
                (0..length).map(|_| ["a", "b", "é"][rng.random_range(0..3)]).collect::<String>()
            };
            let (text, stops) = (word(0, 14), [word(1, 4), word(1, 4)]);
            let stops = [stops[0].as_str(), stops[1].as_str()];
            // by definition: the match that ends first, and of those the longest
            let ends = (0..=text.len()).filter(|&end| text.is_char_boundary(end));
            let found = ends.flat_map(|end| {
                let mut starts: Vec<usize> =
                    stops.iter().filter(|stop| text[..end].ends_with(**stop)).map(|stop| end - stop.len()).collect();
                starts.sort_unstable();
                starts
            });
            let expected = found.into_iter().next().map_or(text.as_str(), |start| &text[..start]);
            let parts: Vec<String> = text.chars().map(String::from).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            assert_eq!(run(&stops, &parts).0, expected, "{text:?} {stops:?}");
            assert_eq!(run(&stops, &[&text]).0, expected, "{text:?} {stops:?}");
        }
    }
}
