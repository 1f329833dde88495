//! Mutations of inputs: of bytes, of numbers, and of the words that the corpus holds.

use std::collections::BTreeSet;

use rand::{Rng as _, rngs::SmallRng};

/// Numbers at the edges of types and of limits.
const NUMBERS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "15",
    "16",
    "64",
    "127",
    "128",
    "255",
    "256",
    "1024",
    "65535",
    "1073741823",
    "2147483647",
    "-2147483648",
    "4294967295",
    "18446744073709551615",
    "1e308",
    "0.5",
];
/// Text that starts, ends or breaks things.
const MARKS: [&str; 22] = [
    "(", ")", "[", "]", "{", "}", ",", "=", "+", ":", "\"", "null", "true", "nan", "inf", "-inf", "\0", "\u{e9}", " ",
    "\n", "::", "<",
];

/// One of a list.
pub(crate) fn pick<'a, T>(list: &'a [T], random: &mut SmallRng) -> &'a T {
    &list[random.random_range(0..list.len())]
}

/// Changes inputs.
pub(crate) struct Mutator {
    /// The words of the corpus.
    words: Vec<String>,
}

impl Mutator {
    pub(crate) fn new(corpus: &[Vec<u8>]) -> Self {
        let texts = corpus.iter().map(|input| String::from_utf8_lossy(input).into_owned());
        let mut words = BTreeSet::from(["word".to_owned()]);
        for text in texts {
            let split = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            words.extend(split.filter(|word| (1..40).contains(&word.len())).map(str::to_owned));
        }
        Mutator { words: words.into_iter().collect() }
    }

    /// Changes an input in one place.
    pub(crate) fn mutate(&self, input: &mut Vec<u8>, others: &[Vec<u8>], random: &mut SmallRng) {
        let at = random.random_range(0..=input.len());
        let end = (at + random.random_range(0..=16.min(input.len() - at))).min(input.len());
        match random.random_range(0..12) {
            0 => drop(input.drain(at..end)),
            1 => {
                let part = input[at..end].to_vec();
                let times = if random.random_range(0..40) == 0 { 500 } else { 1 };
                drop(input.splice(at..at, part.repeat(times)));
            }
            2 => {
                let byte = random.random();
                input.insert(at, byte);
            }
            3 if !input.is_empty() => {
                let at = at.min(input.len() - 1);
                input[at] ^= 1 << random.random_range(0..8);
            }
            4 => drop(input.splice(at..end, pick(&self.words, random).bytes())),
            5 => drop(input.splice(at..at, pick(&self.words, random).bytes())),
            6 => drop(input.splice(at..end, pick::<&str>(&MARKS, random).bytes())),
            7 => drop(input.splice(at..at, pick::<&str>(&MARKS, random).bytes())),
            8 | 9 => replace_number(input, at, pick::<&str>(&NUMBERS, random)),
            10 => {
                // a part of another input
                let other = pick(others, random);
                let from = random.random_range(0..=other.len());
                let to = (from + random.random_range(0..=64)).min(other.len());
                drop(input.splice(at..end, other[from..to].iter().copied()));
            }
            _ => {
                // a word in place of a word
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let begin = input[..at].iter().rposition(|byte| !is_word(byte)).map_or(0, |before| before + 1);
                let len = input[begin..].iter().take_while(|byte| is_word(byte)).count();
                drop(input.splice(begin..begin + len, pick(&self.words, random).bytes()));
            }
        }
    }
}

/// Replaces the first number from a position on.
fn replace_number(input: &mut Vec<u8>, at: usize, with: &str) {
    let Some(begin) = input[at..].iter().position(u8::is_ascii_digit).map(|from| at + from) else { return };
    let len = input[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    drop(input.splice(begin..begin + len, with.bytes()));
}
