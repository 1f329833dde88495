//! The fields of a request's JSON, each read as its type at once: a body takes memory by its size, and not by what it
//! says.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A part of a body. [`fields!`](crate::serve::fields) makes it.
pub(crate) trait Fields: Default {
    /// The names of the fields.
    const NAMES: &'static [&'static str];

    /// Reads the value of a field; false if there is no such field.
    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error>;
}

/// A struct of fields that may be left out, or be `null`.
macro_rules! fields {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        $vis struct $name { $($(#[$field_doc])* pub(crate) $field: Option<$type>,)* }

        impl $crate::serve::fields::Fields for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            fn read<'de, A: serde::de::MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
                match name {
                    $(stringify!($field) => self.$field = map.next_value()?,)*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}
pub(crate) use fields;

/// Fields of OpenAI's clients that change no text, whatever they say.
const NO_MATTER: [&str; 9] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "parallel_tool_calls",
    // a guess at the answer, which makes it faster
    "prediction",
];

/// A field that is not supported: its name, what clients send to ask for nothing, and whether a value does.
type Unsupported = (&'static str, &'static str, fn(&Shown) -> bool);

const UNSUPPORTED: [Unsupported; 14] = [
    ("tools", "[]", Shown::is_empty),
    ("functions", "[]", Shown::is_empty),
    ("tool_choice", "\"none\" or \"auto\"", |shown| shown.says(&["none", "auto"])),
    ("function_call", "\"none\" or \"auto\"", |shown| shown.says(&["none", "auto"])),
    ("response_format", "{\"type\": \"text\"}", |shown| matches!(shown, Shown::Object { kind, .. } if kind == "text")),
    ("logit_bias", "{}", Shown::is_empty),
    ("best_of", "1", |shown| matches!(shown, Shown::Number(1.0))),
    ("suffix", "\"\"", Shown::is_empty),
    ("modalities", "[\"text\"]", |shown| matches!(shown, Shown::List { only, .. } if only == "text")),
    ("verbosity", "\"medium\"", |shown| shown.says(&["medium"])),
    ("audio", "null", |_| false),
    ("reasoning_effort", "null", |_| false),
    ("web_search_options", "null", |_| false),
    ("moderation", "null", |_| false),
];

/// All fields of a request: what all requests share, and what is of this kind.
#[derive(Debug)]
pub(crate) struct Both<S, T>(pub(crate) S, pub(crate) T);

impl<'de, S: Fields, T: Fields> Deserialize<'de> for Both<S, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BothVisitor(PhantomData))
    }
}

struct BothVisitor<S, T>(PhantomData<(S, T)>);

impl<'de, S: Fields, T: Fields> Visitor<'de> for BothVisitor<S, T> {
    type Value = Both<S, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("that the body is a JSON object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        // what is no JSON is told first
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Err(A::Error::custom("the body must be a JSON object"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut shared, mut own) = (S::default(), T::default());
        let mut seen: Vec<Cow<'_, str>> = Vec::new();
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            if seen.contains(&name) {
                map.next_value_seed(Refuse(format!("the field `{name}` is given twice")))?;
            }
            let known = shared.read(&name, &mut map)? || own.read(&name, &mut map)? || read_other(&name, &mut map)?;
            if !known {
                let names = S::NAMES.iter().chain(T::NAMES).copied().collect::<Vec<_>>().join("`, `");
                let name: String = name.chars().take(100).collect();
                map.next_value_seed(Refuse(format!("unknown field `{name}`; there are `{names}`")))?;
            }
            seen.push(name);
        }
        Ok(Both(shared, own))
    }
}

/// Reads a field that changes no text, or that asks for nothing.
fn read_other<'de, A: MapAccess<'de>>(name: &str, map: &mut A) -> Result<bool, A::Error> {
    if NO_MATTER.contains(&name) {
        map.next_value::<IgnoredAny>()?;
        return Ok(true);
    }
    let Some(&(name, nothing, asks_nothing)) = UNSUPPORTED.iter().find(|(known, ..)| *known == name) else {
        return Ok(false);
    };
    map.next_value_seed(Neutral { name, nothing, asks_nothing })?;
    Ok(true)
}

/// The error for a field, which then has its path.
struct Refuse(String);

impl<'de> DeserializeSeed<'de> for Refuse {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
        Err(D::Error::custom(self.0))
    }
}

/// A field that is not supported, and may ask for nothing.
pub(crate) struct Neutral {
    name: &'static str,
    nothing: &'static str,
    asks_nothing: fn(&Shown) -> bool,
}

impl<'de> DeserializeSeed<'de> for Neutral {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let shown = Shown::deserialize(deserializer)?;
        if matches!(shown, Shown::Null) || (self.asks_nothing)(&shown) {
            return Ok(());
        }
        let Neutral { name, nothing, .. } = self;
        Err(D::Error::custom(format!("`{name}` is not supported; leave it out, or send {nothing}")))
    }
}

/// A value that asks for nothing: `null`, or empty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nothing;

impl<'de> Deserialize<'de> for Nothing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let is_empty = Shown::deserialize(deserializer)?.is_empty();
        is_empty.then_some(Nothing).ok_or_else(|| D::Error::custom("this is not supported; leave it out"))
    }
}

/// As much of a value as tells whether it asks for something.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shown {
    Null,
    Bool,
    Number(f64),
    Text(String),
    /// An array; its text if it has one entry, which is a text.
    List {
        len: usize,
        only: String,
    },
    /// An object, and what its `type` says.
    Object {
        len: usize,
        kind: String,
    },
}

impl Shown {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Shown::Null => true,
            Shown::Text(text) => text.is_empty(),
            Shown::List { len, .. } | Shown::Object { len, .. } => *len == 0,
            Shown::Bool | Shown::Number(_) => false,
        }
    }

    fn says(&self, words: &[&str]) -> bool {
        matches!(self, Shown::Text(text) if words.contains(&text.as_str()))
    }
}

impl<'de> Deserialize<'de> for Shown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShownVisitor)
    }
}

struct ShownVisitor;

impl<'de> Visitor<'de> for ShownVisitor {
    type Value = Shown;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Shown, E> {
        Ok(Shown::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shown, E> {
        Ok(Shown::Bool)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Shown, E> {
        Ok(Shown::Number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Shown, E> {
        Ok(Shown::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Shown, E> {
        Ok(Shown::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Shown, E> {
        Ok(Shown::Text(text.chars().take(100).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shown, A::Error> {
        let (mut len, mut only) = (0, String::new());
        while let Some(shown) = seq.next_element::<Shown>()? {
            len += 1;
            only = match shown {
                Shown::Text(text) if len == 1 => text,
                _ => String::new(),
            };
        }
        Ok(Shown::List { len, only })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shown, A::Error> {
        let (mut len, mut kind) = (0, String::new());
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            len += 1;
            if let (Shown::Text(text), "type") = (map.next_value::<Shown>()?, &*name) {
                kind = text;
            }
        }
        Ok(Shown::Object { len, kind })
    }
}
