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

/// Written by hand: the errors of a derived untagged enum do not name the values that are allowed.
impl<'de> Deserialize<'de> for ParamValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;
        impl<'de> Visitor<'de> for Value {
            type Value = ParamValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the value of a parameter: a number, `true`, `false`, or a list of these")
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
