//! Element types of q, k, v and o.

use std::{fmt, str::FromStr};

/// An element type of queries, keys, values and outputs.
///
/// Keys and values may have any of them; queries and outputs not those of 8 bits ([`Dtypes::check`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE binary32. On a GPU it runs on CUDA cores.
    F32,
    /// FP8 with 4 bits of exponent and 3 of mantissa ([`F8E4M3`](crate::lang::F8E4M3)), OCP's e4m3fn: magnitudes up to
    /// 448, no infinities, NaN is 0x7f.
    E4m3,
    /// FP8 with 5 bits of exponent and 2 of mantissa ([`F8E5M2`](crate::lang::F8E5M2)), OCP's e5m2: magnitudes up to
    /// 57344, infinities and NaN as in IEEE formats.
    E5m2,
}

impl Dtype {
    /// Every element type.
    pub const ALL: [Dtype; 5] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::E4m3, Dtype::E5m2];

    /// Size of an element in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Dtype::E4m3 | Dtype::E5m2 => 1,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 => 4,
        }
    }

    /// Whether it has 8 bits. Only keys and values can have such a type.
    #[must_use]
    pub fn is_fp8(self) -> bool {
        matches!(self, Dtype::E4m3 | Dtype::E5m2)
    }

    fn name(self) -> &'static str {
        match self {
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::F32 => "f32",
            Dtype::E4m3 => "e4m3",
            Dtype::E5m2 => "e5m2",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not a [`Dtype`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown dtype `{0}`; there are: f16, bf16, f32, and for keys and values e4m3, e5m2")]
pub struct UnknownDtype(pub String);

impl FromStr for Dtype {
    type Err = UnknownDtype;
    fn from_str(s: &str) -> Result<Self, UnknownDtype> {
        Dtype::ALL.into_iter().find(|dtype| dtype.name() == s).ok_or_else(|| UnknownDtype(s.to_owned()))
    }
}

/// The element types of one attention: queries and outputs share one, keys and values the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dtypes {
    /// Element type of q and o.
    pub qo: Dtype,
    /// Element type of k and v.
    pub kv: Dtype,
}

/// Element types that no attention has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("q and o are {qo}, which is a type of keys and values alone; q and o may be f16, bf16 or f32")]
pub struct DtypesError {
    /// The type of q and o.
    pub qo: Dtype,
}

impl Dtypes {
    /// bf16 for all tensors.
    #[must_use]
    pub fn bf16() -> Self {
        Dtypes { qo: Dtype::Bf16, kv: Dtype::Bf16 }
    }
    /// f16 for all tensors.
    #[must_use]
    pub fn f16() -> Self {
        Dtypes { qo: Dtype::F16, kv: Dtype::F16 }
    }
    /// f32 for all tensors. On a GPU they run on CUDA cores.
    #[must_use]
    pub fn f32() -> Self {
        Dtypes { qo: Dtype::F32, kv: Dtype::F32 }
    }
    /// The same types with another type of k and v: `Dtypes::bf16().with_kv(Dtype::E4m3)`.
    #[must_use]
    pub fn with_kv(self, kv: Dtype) -> Self {
        Dtypes { kv, ..self }
    }
    /// Checks that q and o do not have 8 bits. Each backend checks which pairs it has a kernel for.
    ///
    /// # Errors
    ///
    /// [`DtypesError`] if q and o have 8 bits.
    pub fn check(self) -> Result<(), DtypesError> {
        if self.qo.is_fp8() { Err(DtypesError { qo: self.qo }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Dtype, Dtypes, DtypesError};

    #[test]
    fn names_are_read_back() {
        for dtype in Dtype::ALL {
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
            assert_eq!(serde_json::to_value(dtype).expect("a string"), dtype.to_string());
        }
        let error = "fp8".parse::<Dtype>().expect_err("no name").to_string();
        assert!(error.contains("`fp8`") && error.contains("e4m3") && error.contains("bf16"), "{error}");
    }

    #[test]
    fn queries_of_eight_bits_are_refused() {
        for dtype in Dtype::ALL {
            let types = Dtypes::f32().with_kv(dtype);
            assert_eq!((types.qo, types.kv, types.check()), (Dtype::F32, dtype, Ok(())));
            let all = Dtypes { qo: dtype, kv: dtype }.check();
            assert_eq!(all, if dtype.is_fp8() { Err(DtypesError { qo: dtype }) } else { Ok(()) });
        }
        let text = Dtypes { qo: Dtype::E5m2, kv: Dtype::F16 }.check().expect_err("q is fp8").to_string();
        assert!(text.contains("q and o are e5m2") && text.contains("f16, bf16 or f32"), "{text}");
    }
}
