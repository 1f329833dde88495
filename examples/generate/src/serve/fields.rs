//! The fields of a request's JSON, each read as its type at once: a body takes memory by its size, and not by what it
//! says.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, value::RawValue};

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
type Unsupported = (&'static str, &'static str, fn(&Value) -> bool);

const UNSUPPORTED: [Unsupported; 14] = [
    ("tools", "[]", is_empty),
    ("functions", "[]", is_empty),
    ("tool_choice", "\"none\" or \"auto\"", |value| *value == "none" || *value == "auto"),
    ("function_call", "\"none\" or \"auto\"", |value| *value == "none" || *value == "auto"),
    ("response_format", "{\"type\": \"text\"}", |value| value["type"] == "text"),
    ("logit_bias", "{}", is_empty),
    ("best_of", "1", |value| value.as_f64() == Some(1.0)),
    ("suffix", "\"\"", is_empty),
    ("modalities", "[\"text\"]", |value| value.as_array().is_some_and(|modes| *modes == ["text"])),
    ("verbosity", "\"medium\"", |value| *value == "medium"),
    ("audio", "null", |_| false),
    ("reasoning_effort", "null", |_| false),
    ("web_search_options", "null", |_| false),
    ("moderation", "null", |_| false),
];

/// Bytes of a value that may ask for nothing: longer ones are not read.
const MAX_NOTHING: usize = 1000;

/// A value that is short enough to ask for nothing; another one is `true`, which asks for something.
fn short_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let text = <&RawValue>::deserialize(deserializer)?.get();
    let value = if text.len() <= MAX_NOTHING { serde_json::from_str(text).ok() } else { None };
    Ok(value.unwrap_or(Value::Bool(true)))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

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
    asks_nothing: fn(&Value) -> bool,
}

impl<'de> DeserializeSeed<'de> for Neutral {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let value = short_value(deserializer)?;
        if value.is_null() || (self.asks_nothing)(&value) {
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
        is_empty(&short_value(deserializer)?)
            .then_some(Nothing)
            .ok_or_else(|| D::Error::custom("this is not supported; leave it out"))
    }
}
