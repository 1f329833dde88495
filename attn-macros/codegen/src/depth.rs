//! Text that is nested too deeply for a recursive parser. It is refused before it is parsed: a parser or a generator
//! that runs out of stack takes rustc with it.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::{messages, report::Report};

/// The greatest nesting of brackets.
const BRACKETS: usize = 64;
/// The most tokens without a `;`, a `,` or a block between them. Operators of a chain (`a + b + c`, `!!!a`) nest.
const CHAIN: usize = 1024;

/// Refuses an item that is nested too deeply.
pub fn check(item: &TokenStream) -> Result<(), Report> {
    match too_deep(item, 0) {
        Some(token) => Err(Report::of(&token, messages::TOO_DEEP)),
        None => Ok(()),
    }
}

/// The first token that is nested too deeply.
fn too_deep(tokens: &TokenStream, depth: usize) -> Option<TokenTree> {
    let (mut chain, mut attribute) = (0usize, false);
    for token in tokens.clone() {
        chain += 1;
        if chain > CHAIN {
            return Some(token);
        }
        let after_hash = std::mem::take(&mut attribute);
        match &token {
            TokenTree::Punct(punct) => match punct.as_char() {
                ';' | ',' => chain = 0,
                '#' => attribute = true,
                _ => {}
            },
            TokenTree::Group(group) => {
                if depth == BRACKETS {
                    return Some(token);
                }
                let found = too_deep(&group.stream(), depth + 1);
                if found.is_some() {
                    return found;
                }
                // each line of a doc comment is an attribute
                let ends =
                    group.delimiter() == Delimiter::Brace || (after_hash && group.delimiter() == Delimiter::Bracket);
                if ends {
                    chain = 0;
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::check;

    fn is_refused(text: &str) -> bool {
        check(&text.parse().expect("tokens")).is_err()
    }

    #[test]
    fn chains_and_brackets_are_bounded() {
        for (part, most) in [("a + ", 510), ("!", 1020), ("a.b()", 240)] {
            assert!(!is_refused(&format!("fn f() {{ {} a }}", part.repeat(most))), "{part}");
            assert!(is_refused(&format!("fn f() {{ {} a }}", part.repeat(2 * most))), "{part}");
        }
        let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(!is_refused(&nested(64)) && is_refused(&nested(65)));
        assert!(!is_refused(&format!("fn f() {{ {} }}", "let x = y + 1;".repeat(2000))));
        assert!(!is_refused(&format!("{} fn f() {{}}", "/// A line.\n".repeat(3000))));
    }
}
