//! JSON that people write: a name that is not known, or given twice, is an error that suggests the nearest one.

use std::{collections::HashSet, fmt};

use attn_core::nearest::nearest;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Reads one JSON value whose type refuses unknown fields (`#[serde(deny_unknown_fields)]`).
///
/// # Errors
///
/// What is wrong, and where: for an unknown name the nearest of those that are possible, or all of them; for a name
/// that an object has twice, that name.
pub fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    // the types themselves do not see names twice in maps, and values of any kind keep the last
    serde_json::from_str::<Unique>(text).map_err(|error| error.to_string())?;
    serde_json::from_str(text).map_err(|error| suggested(&error.to_string()))
}

/// serde's message of an unknown name, with the nearest of the possible ones in place of all of them.
fn suggested(message: &str) -> String {
    let Some((before, after)) = message.split_once(", expected ") else { return message.to_owned() };
    let mut unknown = before.split('`');
    let (Some("unknown field " | "unknown variant "), Some(name)) = (unknown.next(), unknown.next()) else {
        return message.to_owned();
    };
    // names alternate with what is between them
    let possible = after.split('`').skip(1).step_by(2);
    let position =
        after.rsplit_once(" at line ").map_or_else(String::new, |(_, position)| format!(" at line {position}"));
    match nearest(name, possible) {
        Some(near) => format!("{before}; did you mean `{near}`?{position}"),
        None => message.to_owned(),
    }
}

/// Any JSON whose objects have no name twice.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Unique)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            map.next_value::<Unique>()?;
            if let Some(name) = seen.replace(name) {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
        }
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Unique, A::Error> {
        while list.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::parse_json;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[serde(default)]
        _seed: u64,
        #[serde(default)]
        _inner: Option<Pages>,
        #[serde(default)]
        _order: Option<Order>,
        #[serde(default)]
        _any: BTreeMap<String, serde_json::Value>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Pages {
        _page_size: u32,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Order {
        Ascending,
        Descending,
    }

    #[test]
    fn unknown_and_repeated_names_are_refused_at_every_level() {
        parse_json::<Outer>(r#"{"_seed": 1, "_any": {"a": [1, {"b": null}], "c": 1.5}, "_order": "descending"}"#)
            .expect("known names");
        let refused = |text: &str| parse_json::<Outer>(text).expect_err(text);
        for (text, why) in [
            (r#"{"_sead": 1}"#, "unknown field `_sead`; did you mean `_seed`? at line 1 column 8"),
            (r#"{"_inner": {"_page_sise": 1}}"#, "unknown field `_page_sise`, expected `_page_size`"),
            (r#"{"_order": "decending"}"#, "unknown variant `decending`; did you mean `descending`?"),
            (r#"{"_seed": 1, "_seed": 2}"#, "duplicate field `_seed` at line 1"),
            (r#"{"_any": {"a": 1, "a": 2}}"#, "duplicate field `a`"),
            (r#"{"_any": {"a": [{"b": 1, "b": 2}]}}"#, "duplicate field `b`"),
            (r#"{"other": 1}"#, "unknown field `other`, expected one of `_seed`"),
            ("{} {}", "trailing characters"),
            ("[", "EOF"),
        ] {
            let error = refused(text);
            // one possible name needs no choice: serde says it
            let said = error.contains(why) || error.contains("did you mean `_page_size`");
            assert!(said, "{text}: {error}");
        }
    }
}
