//! Cuts an expression into tokens.

use super::error::ExprError;

/// One token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'t> {
    Name(&'t str),
    /// A number as written, sign included.
    Number(&'t str),
    /// One of `+ ( ) , = [ ]`.
    Mark(char),
    /// A character that starts no token.
    Stray(char),
    End,
}

impl Token<'_> {
    /// For "found ..".
    pub(super) fn describe(self) -> String {
        match self {
            Token::Name(s) | Token::Number(s) => format!("`{s}`"),
            Token::Mark(c) | Token::Stray(c) => format!("`{c}`"),
            Token::End => "the end".to_owned(),
        }
    }
}

/// A text being read, with the next token known.
#[derive(Debug)]
pub(super) struct Tokens<'t> {
    text: &'t str,
    /// Where the next token starts, in bytes.
    start: usize,
    /// Where it ends.
    end: usize,
    next: Token<'t>,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut tokens = Tokens { text, start: 0, end: 0, next: Token::End };
        tokens.advance();
        tokens
    }

    /// The next token, which stays.
    pub(super) fn peek(&self) -> Token<'t> {
        self.next
    }

    /// The column of the next token.
    pub(super) fn column(&self) -> usize {
        self.text[..self.start].chars().count() + 1
    }

    /// Takes the next token.
    pub(super) fn take(&mut self) -> Token<'t> {
        let token = self.next;
        self.advance();
        token
    }

    /// Takes the next token if it is this mark.
    pub(super) fn eat(&mut self, mark: char) -> bool {
        let found = self.next == Token::Mark(mark);
        if found {
            self.advance();
        }
        found
    }

    /// Whether this mark follows the next token.
    pub(super) fn is_followed_by(&self, mark: char) -> bool {
        self.text[self.end..].trim_start().starts_with(mark)
    }

    /// The error that something else stands here.
    pub(super) fn expected(&self, expected: &str) -> ExprError {
        ExprError::Syntax {
            text: self.text.to_owned(),
            column: self.column(),
            expected: expected.to_owned(),
            found: self.next.describe(),
        }
    }

    fn advance(&mut self) {
        let rest = self.text[self.end..].trim_start();
        self.start = self.text.len() - rest.len();
        let (token, len) = token(rest);
        self.end = self.start + len;
        self.next = token;
    }
}

/// The token that a text starts with, and its length in bytes.
fn token(text: &str) -> (Token<'_>, usize) {
    let Some(first) = text.chars().next() else { return (Token::End, 0) };
    let word_len = |text: &str| text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    match first {
        '+' | '(' | ')' | ',' | '=' | '[' | ']' => (Token::Mark(first), 1),
        c if c.is_ascii_alphabetic() || c == '_' => {
            let len = word_len(text);
            (Token::Name(&text[..len]), len)
        }
        // a sign belongs to the number or word that follows it at once
        '-' | '.' | '0'..='9' => {
            let len = number_len(text);
            if len == 1 && !first.is_ascii_digit() {
                (Token::Stray(first), 1)
            } else {
                (Token::Number(&text[..len]), len)
            }
        }
        c => (Token::Stray(c), c.len_utf8()),
    }
}

/// How far a number reaches: a sign, then letters, digits, `_`, `.`, and a sign after an exponent's `e`.
/// What it holds is checked where it is read, so that `1x` is one wrong number and not two tokens.
fn number_len(text: &str) -> usize {
    let mut previous = None;
    for (i, c) in text.char_indices() {
        let sign = (c == '-' && i == 0) || (matches!(c, '+' | '-') && matches!(previous, Some('e' | 'E')) && i > 1);
        if !(sign || c.is_ascii_alphanumeric() || c == '_' || c == '.') {
            return i;
        }
        previous = Some(c);
    }
    text.len()
}
