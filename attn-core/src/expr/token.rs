//! The tokens of an expression.

use super::error::ExprError;
use crate::excerpt::excerpt;

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
    /// The token as error messages write it.
    pub(super) fn describe(self) -> String {
        match self {
            Token::Name(s) | Token::Number(s) => format!("`{}`", excerpt(s)),
            Token::Mark(c) | Token::Stray(c) => format!("`{c}`"),
            Token::End => "the end".to_owned(),
        }
    }
}

/// A text and its next token.
#[derive(Debug)]
pub(super) struct Tokens<'t> {
    text: &'t str,
    /// Start of the next token, in bytes.
    start: usize,
    /// End of the next token, in bytes.
    end: usize,
    /// Column of the next token, from 1: counted on the way, since counting it anew takes quadratic time.
    column: usize,
    next: Token<'t>,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut tokens = Tokens { text, start: 0, end: 0, column: 1, next: Token::End };
        tokens.advance();
        tokens
    }

    /// The next token; it is not consumed.
    pub(super) fn peek(&self) -> Token<'t> {
        self.next
    }

    /// The column of the next token.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// Consumes the next token.
    pub(super) fn take(&mut self) -> Token<'t> {
        let token = self.next;
        self.advance();
        token
    }

    /// Consumes the next token if it is this mark.
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

    /// The error for an unexpected token here.
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
        let start = self.text.len() - rest.len();
        self.column += self.text[self.start..start].chars().count();
        self.start = start;
        let (token, len) = token(rest);
        self.end = self.start + len;
        self.next = token;
    }
}

/// The first token of a text, and its length in bytes.
fn token(text: &str) -> (Token<'_>, usize) {
    let Some(first) = text.chars().next() else { return (Token::End, 0) };
    let word_len = |text: &str| text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    match first {
        '+' | '(' | ')' | ',' | '=' | '[' | ']' => (Token::Mark(first), 1),
        c if c.is_ascii_alphabetic() || c == '_' => {
            let len = word_len(text);
            (Token::Name(&text[..len]), len)
        }
        // a sign belongs to the number or word right after it
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

/// The length of a number: a sign, then letters, digits, `_`, `.`, and a sign after an exponent's `e`. The parser
/// checks it, so `1x` is one malformed number and not two tokens.
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
