//! Values that are one thing or a list of them. A list that is too long is refused before it is kept.

use std::{fmt, sync::Arc};

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Prompts of one request, at most.
pub(crate) const MAX_PROMPTS: usize = 128;

/// Text or tokens, once or several times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Prompt {
    Texts(Vec<String>),
    Tokens(Vec<Vec<u32>>),
}

/// Stop strings of a request, at most.
pub(crate) const MAX_STOPS: usize = 16;

/// Stop strings, one or several. All choices of a request share them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stops(pub(crate) Vec<Arc<str>>);

/// Tokens, at most `MOST` of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Few<const MOST: usize>(pub(crate) Vec<u32>);

/// An entry of a list.
enum Item {
    Text(String),
    Token(u32),
    Tokens(Vec<u32>),
    Other,
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Item, E> {
        Ok(Item::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Item, E> {
        Ok(Item::Other)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Item, E> {
        Ok(u32::try_from(number).map_or(Item::Other, Item::Token))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Item, E> {
        Ok(Item::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Item, E> {
        Ok(Item::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Item, E> {
        Ok(Item::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Item, E> {
        Ok(Item::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Item, A::Error> {
        let (mut tokens, mut others) = (Vec::new(), false);
        while let Some(item) = seq.next_element::<Token>()? {
            match item {
                Token(Some(token)) if !others => tokens.push(token),
                _ => others = true,
            }
        }
        Ok(if others { Item::Other } else { Item::Tokens(tokens) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Item, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Item::Other)
    }
}

/// A token, or something else.
struct Token(Option<u32>);

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let item = deserializer.deserialize_any(ItemVisitor)?;
        Ok(Token(if let Item::Token(token) = item { Some(token) } else { None }))
    }
}

impl<'de> Deserialize<'de> for Prompt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptVisitor)
    }
}

struct PromptVisitor;

const PROMPT: &str = "a prompt is a string, an array of strings, of tokens, or of arrays of tokens";

impl<'de> Visitor<'de> for PromptVisitor {
    type Value = Prompt;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PROMPT)
    }

    fn visit_str<E>(self, text: &str) -> Result<Prompt, E> {
        Ok(Prompt::Texts(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Prompt, A::Error> {
        let (mut texts, mut lists, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(item) = seq.next_element::<Item>()? {
            match item {
                Item::Text(text) => texts.push(text),
                Item::Token(token) => tokens.push(token),
                Item::Tokens(list) => lists.push(list),
                Item::Other => return Err(A::Error::custom(PROMPT)),
            }
            if texts.len().max(lists.len()) > MAX_PROMPTS {
                let message = format!("there are more than {MAX_PROMPTS} prompts; a request has 1 to {MAX_PROMPTS}");
                return Err(A::Error::custom(message));
            }
        }
        match [texts.is_empty(), tokens.is_empty(), lists.is_empty()] {
            [false, true, true] => Ok(Prompt::Texts(texts)),
            [true, false, true] => Ok(Prompt::Tokens(vec![tokens])),
            [true, true, false] => Ok(Prompt::Tokens(lists)),
            [true, true, true] => Err(A::Error::custom(format!("0 prompts; a request has 1 to {MAX_PROMPTS}"))),
            _ => Err(A::Error::custom(PROMPT)),
        }
    }
}

impl<'de> Deserialize<'de> for Stops {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StopsVisitor)
    }
}

struct StopsVisitor;

const STOPS: &str = "a stop string or an array of them";

impl<'de> Visitor<'de> for StopsVisitor {
    type Value = Stops;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STOPS)
    }

    fn visit_str<E>(self, text: &str) -> Result<Stops, E> {
        Ok(Stops(vec![text.into()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Stops, A::Error> {
        let mut stops: Vec<Arc<str>> = Vec::new();
        while let Some(item) = seq.next_element::<Item>()? {
            let Item::Text(text) = item else { return Err(A::Error::custom(STOPS)) };
            if stops.len() == MAX_STOPS {
                let message =
                    format!("there are more than {MAX_STOPS} stop strings; at most {MAX_STOPS} are looked for");
                return Err(A::Error::custom(message));
            }
            stops.push(text.into());
        }
        Ok(Stops(stops))
    }
}

impl<'de, const MOST: usize> Deserialize<'de> for Few<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FewVisitor)
    }
}

struct FewVisitor<const MOST: usize>;

impl<'de, const MOST: usize> Visitor<'de> for FewVisitor<MOST> {
    type Value = Few<MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of tokens")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Few<MOST>, A::Error> {
        let mut tokens = Vec::new();
        while let Some(token) = seq.next_element()? {
            if tokens.len() == MOST {
                return Err(A::Error::custom(format!("there are more than {MOST} tokens, which is the most")));
            }
            tokens.push(token);
        }
        Ok(Few(tokens))
    }
}
