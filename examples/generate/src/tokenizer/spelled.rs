//! Tokens that are found by their spelling, before a text is cut into words.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::Error;

/// A set of tokens that are one token wherever their spelling stands; the longest of them at a place.
pub(super) struct Spelled {
    /// `None` where there are no such tokens.
    search: Option<AhoCorasick>,
    ids: Vec<u32>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Token(u32),
    Text(&'a str),
}

impl Spelled {
    pub(super) fn new<'a>(tokens: impl Iterator<Item = (u32, &'a str)>) -> Result<Self, Error> {
        // an empty spelling is everywhere
        let (ids, texts): (Vec<u32>, Vec<&str>) = tokens.filter(|(_, text)| !text.is_empty()).unzip();
        let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
        let search = search.map_err(|error| Error::Tokenizer(error.to_string()))?;
        Ok(Spelled { search: (!ids.is_empty()).then_some(search), ids })
    }

    /// The parts of a text, in order. No text is empty.
    pub(super) fn split<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Part<'a>> {
        let mut end = 0;
        let found = self.search.iter().flat_map(move |search| search.find_iter(text));
        let found = found.map(|found| (found.start(), found.end(), Some(self.ids[found.pattern().as_usize()])));
        let parts = found.chain([(text.len(), text.len(), None)]).flat_map(move |(start, next, token)| {
            let before = &text[end..start];
            end = next;
            [(!before.is_empty()).then_some(Part::Text(before)), token.map(Part::Token)]
        });
        parts.flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_token_at_a_place_is_taken() {
        let spelled = Spelled::new([(7, "<a>"), (8, "<a>b"), (9, "")].into_iter()).expect("a set");
        let parts = |text| spelled.split(text).collect::<Vec<_>>();
        assert_eq!(parts("x<a>bé<a>"), [Part::Text("x"), Part::Token(8), Part::Text("é"), Part::Token(7)]);
        assert_eq!(parts("<a"), [Part::Text("<a")]);
        assert_eq!(parts(""), []);
        let none = Spelled::new(std::iter::empty()).expect("a set");
        assert_eq!(none.split("<a>").collect::<Vec<_>>(), [Part::Text("<a>")]);
    }
}
