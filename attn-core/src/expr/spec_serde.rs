//! Reads and writes [`VariantSpec`] by hand. The errors of a derived untagged enum name neither the expected form nor
//! the error inside a part.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::spec::{NodeSpec, PartSpec, VariantSpec};
use crate::lang::ParamValues;

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
            fn visit_map<A: MapAccess<'de>>(self, node: A) -> Result<VariantSpec, A::Error> {
                NodeSpec::deserialize(MapAccessDeserializer::new(node)).map(|node| VariantSpec::Parts(vec![node]))
            }
        }
        deserializer.deserialize_any(Spec)
    }
}

/// Keys of an element.
const KEYS: &[&str] = &["name", "params", "or", "not", "remap", "per_head", "union"];

impl<'de> Deserialize<'de> for NodeSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Element;
        impl<'de> Visitor<'de> for Element {
            type Value = NodeSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a part with `name` and `params`, or one of `or`, `not`, `remap`, `per_head` and `union`")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NodeSpec, A::Error> {
                let (mut name, mut params, mut combinator) = (None::<String>, None::<ParamValues>, None);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "name" if name.is_none() => name = Some(map.next_value()?),
                        "params" if params.is_none() => params = Some(map.next_value()?),
                        "or" => twice(combinator.replace(NodeSpec::Or(map.next_value()?)))?,
                        "not" => twice(combinator.replace(NodeSpec::Not(map.next_value()?)))?,
                        "remap" => twice(combinator.replace(NodeSpec::Remap(map.next_value()?)))?,
                        "per_head" => twice(combinator.replace(NodeSpec::PerHead(map.next_value()?)))?,
                        "union" => twice(combinator.replace(NodeSpec::Union(map.next_value()?)))?,
                        "name" => return Err(A::Error::duplicate_field("name")),
                        "params" => return Err(A::Error::duplicate_field("params")),
                        other => return Err(A::Error::unknown_field(other, KEYS)),
                    }
                }
                match (name, params, combinator) {
                    (None, None, Some(node)) => Ok(node),
                    (Some(name), params, None) => {
                        Ok(NodeSpec::Part(PartSpec { name, params: params.unwrap_or_default() }))
                    }
                    (None, _, None) => Err(A::Error::missing_field("name")),
                    (_, _, Some(_)) => Err(two_things()),
                }
            }
        }
        deserializer.deserialize_map(Element)
    }
}

fn twice<E: Error>(earlier: Option<NodeSpec>) -> Result<(), E> {
    earlier.map_or(Ok(()), |_| Err(two_things()))
}

fn two_things<E: Error>() -> E {
    E::custom("an element is one part or one combinator; write two elements")
}

impl Serialize for NodeSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let NodeSpec::Part(part) = self {
            return part.serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        match self {
            NodeSpec::Part(_) => {}
            NodeSpec::Or(masks) => map.serialize_entry("or", masks)?,
            NodeSpec::Not(mask) => map.serialize_entry("not", mask)?,
            NodeSpec::Remap(remap) => map.serialize_entry("remap", remap)?,
            NodeSpec::PerHead(per_head) => map.serialize_entry("per_head", per_head)?,
            NodeSpec::Union(branches) => map.serialize_entry("union", branches)?,
        }
        map.end()
    }
}
