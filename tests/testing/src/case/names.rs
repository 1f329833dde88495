//! Values of a case file by their names.

/// [`Case::head_dim_vo`](super::Case::head_dim_vo) in a case file: a string or a number.
pub(super) mod head_dim_vo {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    use attn::HeadDimVo;

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "values are \"same\", a number of elements, or \"keys:NUMBER\"")]
    enum Written {
        Dim(u32),
        Text(String),
    }

    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
    pub(in super::super) fn serialize<S: Serializer>(values: &HeadDimVo, to: S) -> Result<S::Ok, S::Error> {
        match *values {
            HeadDimVo::Dim(dim) => to.serialize_u32(dim),
            text => to.collect_str(&text),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<HeadDimVo, D::Error> {
        match Written::deserialize(from)? {
            Written::Dim(dim) => Ok(HeadDimVo::Dim(dim)),
            Written::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

/// A value by its name.
pub(super) mod by_name {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(in super::super) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(in super::super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A value by its name, where there is one.
pub(super) mod optional_name {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserializer, Serializer};

    use super::by_name;

    pub(in super::super) fn serialize<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => by_name::serialize(value, to),
            None => to.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        by_name::deserialize(from).map(Some)
    }
}
