//! Values of parameters, as serde reads and writes them.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::lang::{ParamValue, ParamValues};

impl ParamValues {
    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Numbers that JSON does not have are words, as in expressions: `"inf"`, `"-inf"`, `"nan"`.
impl Serialize for ParamValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ParamValue::Bool(x) => serializer.serialize_bool(*x),
            ParamValue::Int(x) => serializer.serialize_i64(*x),
            ParamValue::Float(x) if x.is_finite() => serializer.serialize_f64(*x),
            ParamValue::Float(_) => serializer.collect_str(self),
            ParamValue::List(values) => serializer.collect_seq(values),
        }
    }
}

/// Written by hand: the errors of a derived untagged enum do not name the values that are allowed.
impl<'de> Deserialize<'de> for ParamValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;
        impl<'de> Visitor<'de> for Value {
            type Value = ParamValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the value of a parameter: a number, inf, -inf or nan, `true`, `false`, or a list of these")
            }
            fn visit_bool<E: Error>(self, x: bool) -> Result<ParamValue, E> {
                Ok(ParamValue::Bool(x))
            }
            fn visit_i64<E: Error>(self, x: i64) -> Result<ParamValue, E> {
                Ok(ParamValue::Int(x))
            }
            fn visit_u64<E: Error>(self, x: u64) -> Result<ParamValue, E> {
                Ok(i64::try_from(x).map_or(ParamValue::Float(x as f64), ParamValue::Int))
            }
            fn visit_f64<E: Error>(self, x: f64) -> Result<ParamValue, E> {
                Ok(ParamValue::Float(x))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<ParamValue, E> {
                match text {
                    "inf" => Ok(ParamValue::Float(f64::INFINITY)),
                    "-inf" => Ok(ParamValue::Float(f64::NEG_INFINITY)),
                    "nan" => Ok(ParamValue::Float(f64::NAN)),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<ParamValue, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(values)).map(ParamValue::List)
            }
        }
        deserializer.deserialize_any(Value)
    }
}

/// A map, in the order given.
impl Serialize for ParamValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

/// A map; a name given twice is kept twice, and refused where the values are read.
impl<'de> Deserialize<'de> for ParamValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = ParamValues;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("parameters by name")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ParamValues, A::Error> {
                let mut values = ParamValues::default();
                while let Some(entry) = map.next_entry::<String, ParamValue>()? {
                    values.0.push(entry);
                }
                Ok(values)
            }
        }
        deserializer.deserialize_map(Values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinities_read_back_from_json() {
        let list = |values: Vec<ParamValue>| ParamValue::List(values);
        let values = ParamValues(vec![
            ("logits".to_owned(), list(vec![ParamValue::Float(f64::NEG_INFINITY), ParamValue::Int(0)])),
            ("cap".to_owned(), ParamValue::Float(f64::INFINITY)),
            ("x".to_owned(), ParamValue::Float(0.5)),
        ]);
        let json = serde_json::to_string(&values).expect("JSON");
        assert_eq!(json, r#"{"logits":["-inf",0],"cap":"inf","x":0.5}"#);
        assert_eq!(serde_json::from_str::<ParamValues>(&json).expect("what was written"), values);
        let nan: ParamValue = serde_json::from_str(r#""nan""#).expect("a number");
        assert!(matches!(nan, ParamValue::Float(x) if x.is_nan()));
        assert!(serde_json::from_str::<ParamValue>(r#""far""#).is_err());
    }
}
