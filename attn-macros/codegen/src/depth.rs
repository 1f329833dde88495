//! Text that is nested too deeply for a recursive parser. It is refused before it is parsed: a parser or a generator
//! that runs out of stack takes rustc with it.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::{budget, messages, report::Report};

/// The greatest nesting of brackets.
const BRACKETS: usize = 64;
/// The most `<` in one expression or type that no `>` follows.
const ANGLES: usize = 128;
/// The most tokens of one expression, type or pattern, those before the brackets that it stands in included. Operators
/// of a chain (`a + b + c`, `!!!a`) nest.
const CHAIN: usize = 1024;

/// Refuses tokens that are nested too deeply, or that have a name or number that is too long.
pub fn check(tokens: &TokenStream) -> Result<(), Report> {
    check_within(tokens, usize::MAX)
}

/// Refuses an item that is nested too deeply, or over the budget of tokens, names or numbers.
pub(crate) fn check_item(item: &TokenStream) -> Result<(), Report> {
    check_within(item, budget::TOKENS)
}

fn check_within(tokens: &TokenStream, most: usize) -> Result<(), Report> {
    if let Some(token) = too_deep(tokens, 0, 0) {
        return Err(Report::of(&first_of(token), messages::TOO_DEEP));
    }
    // this walks down to what is nested, and comes second
    budget::over(tokens, most).map_or(Ok(()), |(token, message)| Err(Report::of(&first_of(token), message)))
}

/// A token without what is inside of it: a message over a whole group would hold a copy of it.
fn first_of(token: TokenTree) -> TokenTree {
    match token {
        TokenTree::Group(group) => {
            let mut empty = Group::new(group.delimiter(), TokenStream::new());
            empty.set_span(group.span());
            TokenTree::Group(empty)
        }
        token => token,
    }
}

/// Where a chain of tokens may end.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Other,
    /// A `#` where a statement or an element begins.
    Hash,
    /// A block, which ends a statement unless an operator or an `else` follows.
    Block,
}

/// The first token that is nested too deeply. `outside` is the number of tokens that the brackets around continue.
fn too_deep(tokens: &TokenStream, depth: usize, outside: usize) -> Option<TokenTree> {
    let (mut chain, mut before) = (outside, Before::Other);
    // a `,` after one of these may be inside of `|a, b|` or of `A<B, C>`, which go on behind it
    let mut unclosed = false;
    // `A<B<C<` nests without brackets; comparisons open and never close
    let mut angles = 0usize;
    for token in tokens.clone() {
        if before == Before::Block && begins(&token) {
            (chain, unclosed) = (outside, false);
        }
        if chain == outside {
            angles = 0;
        }
        let fresh = chain == outside;
        chain += 1;
        if chain > CHAIN {
            return Some(token);
        }
        let attribute = before == Before::Hash;
        before = Before::Other;
        match &token {
            TokenTree::Punct(punct) => match punct.as_char() {
                ';' => (chain, unclosed) = (outside, false),
                ',' if !unclosed => chain = outside,
                '<' => {
                    angles += 1;
                    unclosed = true;
                    if angles > ANGLES {
                        return Some(token);
                    }
                }
                '>' => angles = angles.saturating_sub(1),
                '|' => unclosed = true,
                '#' if fresh => before = Before::Hash,
                _ => {}
            },
            TokenTree::Group(group) => {
                if depth == BRACKETS {
                    return Some(token);
                }
                let found = too_deep(&group.stream(), depth + 1, chain);
                if found.is_some() {
                    return found;
                }
                match group.delimiter() {
                    Delimiter::Brace => before = Before::Block,
                    // each line of a doc comment is an attribute
                    Delimiter::Bracket if attribute => chain = outside,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether a token behind a block begins a statement, an item or an arm, rather than going on with an expression.
fn begins(token: &TokenTree) -> bool {
    match token {
        TokenTree::Ident(word) => word != "else" && word != "as",
        TokenTree::Literal(_) => true,
        TokenTree::Punct(punct) => matches!(punct.as_char(), '#' | '\''),
        TokenTree::Group(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    fn is_refused(text: &str) -> bool {
        check(&text.parse().expect("tokens")).is_err()
    }

    #[test]
    fn chains_and_brackets_are_bounded() {
        for (part, most) in [("a + ", 500), ("!", 1000), ("a.b()", 240)] {
            assert!(!is_refused(&format!("fn f() {{ {} a }}", part.repeat(most))), "{part}");
            assert!(is_refused(&format!("fn f() {{ {} a }}", part.repeat(2 * most))), "{part}");
        }
        let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(!is_refused(&nested(64)) && is_refused(&nested(65)));
        assert!(!is_refused(&format!("fn f() {{ {} }}", "let x = y + 1;".repeat(2000))));
        assert!(!is_refused(&format!("{} fn f() {{}}", "/// A line.\n".repeat(3000))));
        // long lists do not nest
        assert!(!is_refused(&format!("fn f() {{ match x {{ {} }} }}", "1 => {}".repeat(2000))));
        assert!(!is_refused(&format!("fn f() {{ match x {{ {} }} }}", "A => 2,".repeat(2000))));
        assert!(!is_refused(&format!("struct S {{ {} }}", "/// A line.\n a: f32,".repeat(2000))));
    }

    /// libFuzzer ran out of stack in text of this kind.
    #[test]
    fn blocks_commas_and_attributes_do_not_hide_a_chain() {
        let chains = [
            ("if c {}", " else if c {}"),
            ("{}", " - {x}"),
            ("{}", " && {}"),
            ("x", "={}(1)"),
            ("", "return {} + "),
            ("", "|a, b, c| "),
            ("", "|a, b| c | "),
            ("x::", "<A, B, C"),
            ("let x: ", "A<"),
            ("", "- #[a] "),
        ];
        for (begin, part) in chains {
            assert!(is_refused(&format!("fn f() {{ {begin} {} }}", part.repeat(1000))), "{part}");
        }
        // brackets add up
        let (open, close) = (format!("({}", "-".repeat(40)), ")");
        assert!(is_refused(&format!("fn f() {{ {} a {} }}", open.repeat(40), close.repeat(40))));
    }
}
