//! Element types of q, k, v and o.

use std::{fmt, str::FromStr};

/// An element type. Sealed in meaning: a kernel exists for each on some backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// Single precision; on the CPU backend only.
    F32,
}

impl Dtype {
    /// Bytes of one element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 => 4,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::F32 => "f32",
        })
    }
}

/// A dtype that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown dtype `{0}`; there are: f16, bf16, f32")]
pub struct UnknownDtype(pub String);

impl FromStr for Dtype {
    type Err = UnknownDtype;
    fn from_str(s: &str) -> Result<Self, UnknownDtype> {
        match s {
            "f16" => Ok(Dtype::F16),
            "bf16" => Ok(Dtype::Bf16),
            "f32" => Ok(Dtype::F32),
            _ => Err(UnknownDtype(s.to_owned())),
        }
    }
}

/// The element types of one attention: queries and outputs share one, keys and values the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dtypes {
    /// Of q and o.
    pub qo: Dtype,
    /// Of k and v.
    pub kv: Dtype,
}

impl Dtypes {
    /// bf16 throughout.
    #[must_use]
    pub fn bf16() -> Self {
        Dtypes { qo: Dtype::Bf16, kv: Dtype::Bf16 }
    }
    /// f16 throughout.
    #[must_use]
    pub fn f16() -> Self {
        Dtypes { qo: Dtype::F16, kv: Dtype::F16 }
    }
    /// f32 throughout; CPU only.
    #[must_use]
    pub fn f32() -> Self {
        Dtypes { qo: Dtype::F32, kv: Dtype::F32 }
    }
}
