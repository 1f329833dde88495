//! What an item may cost: a variant may come from anyone, as Rust text. What is over the budget is refused, with the
//! budget's name, its limit and the way out.
//!
//! The length of a text does not bound the work that it makes: what is used twice may be written twice, and what is
//! nested is visited at each level. So each pass over an item spends steps, and stops where none is left. Nesting is
//! bounded before the parser ([`depth`](crate::depth)).

use std::cell::{Cell, RefCell};

use proc_macro2::{Span, TokenStream, TokenTree};

use crate::report::Report;

/// The most tokens of an item.
pub const TOKENS: usize = 1 << 15;
/// The most letters of a name, and digits of a number.
pub const NAME: usize = 128;
/// The most instances of a generic item.
pub const INSTANCES: usize = 64;
/// The most parameters of a variant, fields of a struct and variants of an enum.
pub const FIELDS: usize = 256;
/// The most numbers in a tuple, and elements of an array: a thread of a kernel has no room for more.
pub const ELEMENTS: u64 = 4096;
/// The most tuples and numbers in a type: its name is written wherever a variable has it.
pub const TYPE_PARTS: usize = 64;
/// The most steps of the passes over an item. Stock variants take a thousand.
pub const STEPS: u64 = 200_000;
/// The steps of parsing an item and what is emitted beside it.
pub(crate) const OF_ITEM: usize = 400;
/// The most steps that the mask of an item is followed for. Beyond, nothing is known of tiles.
pub(crate) const MASK_STEPS: u64 = 50_000;

thread_local! {
    /// Steps that are left.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    /// What was over a budget other than the steps.
    static REFUSED: RefCell<Option<(Span, String)>> = const { RefCell::new(None) };
}

/// Spends steps. `false` where too few are left: the caller then returns what ends the pass soon.
pub(crate) fn spend(steps: usize) -> bool {
    let left = LEFT.get();
    let enough = left >= steps as u64;
    LEFT.set(if enough { left - steps as u64 } else { 0 });
    enough
}

/// Whether no step is left.
pub fn is_spent() -> bool {
    LEFT.get() == 0
}

/// Ends all passes over the item, for this reason.
pub(crate) fn refuse(at: Span, message: impl std::fmt::Display) {
    LEFT.set(0);
    REFUSED.with_borrow_mut(|refused| {
        refused.get_or_insert_with(|| (at, message.to_string()));
    });
}

/// Runs with at most this many steps, of those that are left; and whether they were enough.
pub fn within<T>(most: u64, run: impl FnOnce() -> T) -> (T, bool) {
    let before = LEFT.get();
    let given = before.min(most);
    LEFT.set(given);
    let result = run();
    let left = LEFT.get();
    LEFT.set(before - (given - left));
    (result, left > 0)
}

/// Text that is derived from a hook, if it takes few steps: it is for speed alone.
pub(crate) fn derived(emit: impl FnOnce() -> Option<String>) -> Option<String> {
    let (text, enough) = within(MASK_STEPS, emit);
    text.filter(|_| enough)
}

/// What is read of an item that begins at `first`, or the refusal of an item that is over the budget.
pub(crate) fn checked<T>(first: Span, read: impl FnOnce() -> Result<T, Report>) -> Result<T, Report> {
    let (found, enough) = within(STEPS, read);
    match REFUSED.take() {
        Some((at, message)) => Err(syn::Error::new(at, message).into()),
        None if enough => found,
        None => Err(syn::Error::new(first, steps()).into()),
    }
}

/// Where an item begins.
pub(crate) fn first_of(item: &TokenStream) -> Span {
    item.clone().into_iter().next().map_or_else(Span::call_site, |token| token.span())
}

/// The message of an item that takes too many steps.
pub fn steps() -> String {
    format!(
        "this takes more than {STEPS} steps to translate, the most for one item: write less in one expression, name \
         what is used twice with `let`, or move parts to functions with `#[device_fn]`"
    )
}

/// The first token over the budget of tokens, names or numbers, and what is wrong.
pub(crate) fn over(tokens: &TokenStream, most: usize) -> Option<(TokenTree, String)> {
    let mut left = most;
    first_over(tokens.clone(), &mut left)
}

fn first_over(tokens: TokenStream, left: &mut usize) -> Option<(TokenTree, String)> {
    for token in tokens {
        if *left == 0 {
            let message = format!(
                "this item is longer than {TOKENS} words and signs, the most for one item: move parts to functions \
                 with `#[device_fn]`, and tables to parameter tensors"
            );
            return Some((token, message));
        }
        *left -= 1;
        match &token {
            TokenTree::Ident(name) => {
                let letters = name.to_string().chars().count();
                if letters > NAME {
                    return Some((token, format!("a name has at most {NAME} letters; this one has {letters}")));
                }
            }
            // parsing it takes the square of its length
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.len() > NAME && text.starts_with(|c: char| c.is_ascii_digit()) {
                    let digits = text.len();
                    return Some((token, format!("a number has at most {NAME} digits; this one has {digits}")));
                }
            }
            TokenTree::Group(group) => {
                let found = first_over(group.stream(), left);
                if found.is_some() {
                    return found;
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_add_up_across_what_is_nested() {
        let ((), enough) = within(10, || {
            assert!(within(4, || assert!(spend(3) && !spend(3))) == ((), false));
            assert!(spend(6), "the inner ones took 4");
            assert!(is_spent() && !spend(1));
        });
        assert!(!enough && !is_spent(), "what is around has its own");
    }

    #[test]
    fn names_and_tokens_are_bounded() {
        let said = |text: &str| over(&text.parse().expect("tokens"), TOKENS).map(|(_, message)| message);
        assert_eq!(said(&format!("fn f() {{ {} }}", "a + ".repeat(TOKENS / 4))), None);
        assert!(said(&"a + ".repeat(TOKENS)).is_some_and(|message| message.contains("32768")));
        assert_eq!(said(&"1".repeat(NAME)), None);
        assert!(
            said(&"1".repeat(NAME + 1))
                .is_some_and(|message| message.contains("129 digits") || message.contains("has 129"))
        );
        assert_eq!(said(&format!("\"{}\"", "1".repeat(2 * NAME))), None, "a doc comment");
        assert_eq!(said(&"a".repeat(NAME)), None);
        assert!(said(&"a".repeat(NAME + 1)).is_some_and(|message| message.contains("129")));
    }
}
