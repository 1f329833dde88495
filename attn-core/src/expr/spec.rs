//! A variant as serde reads and writes it: the expression, or a list of parts.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::ExprError;
use super::parse;
use super::variant::Variant;
use crate::lang::{ParamValue, ParamValues};
use crate::registry::Registry;

/// A variant in a configuration file: `"causal + soft_cap(cap=30)"`, or
/// `[{"name": "causal"}, {"name": "soft_cap", "params": {"cap": 30}}]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum VariantSpec {
    /// The expression.
    Text(String),
    /// The parts in order.
    Parts(Vec<PartSpec>),
}

/// One part by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartSpec {
    /// Registered name.
    pub name: String,
    /// Parameters by name.
    #[serde(default, skip_serializing_if = "ParamValues::is_empty")]
    pub params: ParamValues,
}

impl VariantSpec {
    /// The variant, over the variants of the program.
    ///
    /// # Errors
    /// As [`Variant::parse`].
    pub fn build(&self) -> Result<Variant, ExprError> {
        self.build_with(&*Registry::global()?)
    }

    /// The variant, over the variants of a registry.
    ///
    /// # Errors
    /// As [`Variant::parse`].
    pub fn build_with(&self, registry: &Registry) -> Result<Variant, ExprError> {
        match self {
            VariantSpec::Text(text) => Variant::parse_with(text, registry),
            VariantSpec::Parts(parts) => parts
                .iter()
                .try_fold(Variant::full(), |v, part| parse::add(v, &part.name, &part.params, registry))?
                .checked(),
        }
    }
}

impl From<&Variant> for VariantSpec {
    fn from(variant: &Variant) -> Self {
        let part = |part: &dyn crate::lang::ErasedVariant| PartSpec {
            name: part.desc().name.to_owned(),
            params: part.to_values(),
        };
        VariantSpec::Parts(variant.parts().map(part).collect())
    }
}

impl TryFrom<VariantSpec> for Variant {
    type Error = ExprError;
    fn try_from(spec: VariantSpec) -> Result<Self, ExprError> {
        spec.build()
    }
}

impl ParamValues {
    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Says what may stand there, and what is wrong inside a part, where an untagged enum would say neither.
impl<'de> Deserialize<'de> for VariantSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Spec;
        impl<'de> Visitor<'de> for Spec {
            type Value = VariantSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "an expression such as \"causal + soft_cap(cap=30)\", or a list of parts with `name` and `params`",
                )
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<VariantSpec, E> {
                Ok(VariantSpec::Text(text.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<VariantSpec, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(parts)).map(VariantSpec::Parts)
            }
        }
        deserializer.deserialize_any(Spec)
    }
}

/// As [`VariantSpec`].
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
