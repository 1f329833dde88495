//! Values that are one thing or a list of them. A list that is too long is refused before it is kept.

use std::{fmt, sync::Arc};

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

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

/// An entry of a list.
enum Item {
    Text(String),
    Token(u32),
    Tokens(Vec<u32>),
    Other,
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let item = match text.as_bytes()[0] {
            b'"' => serde_json::from_str(text).map(Item::Text),
            b'[' => serde_json::from_str(text).map(Item::Tokens),
            _ => serde_json::from_str(text).map(Item::Token),
        };
        Ok(item.unwrap_or(Item::Other))
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
