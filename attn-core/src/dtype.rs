//! Element types of q, k, v and o.

use std::{fmt, str::FromStr};

use crate::lang::kv_format::KvFormatId;

/// An element type of queries, keys, values and outputs.
///
/// Keys and values may have any of them, queries and outputs not e5m2 ([`Dtypes::check`]).
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
    /// Bytes: keys and values in a [`KvFormat`](crate::lang::KvFormat), whose rows hold codes instead of elements.
    U8,
}

impl Dtype {
    /// Every element type that is a number by itself.
    pub const ALL: [Dtype; 5] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::E4m3, Dtype::E5m2];

    /// Size of an element in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Dtype::E4m3 | Dtype::E5m2 | Dtype::U8 => 1,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 => 4,
        }
    }

    /// Whether it is a number of 8 bits.
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
            Dtype::U8 => "u8",
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

/// The element types of one attention: queries and outputs share one, unless outputs have another, and keys and values
/// have the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dtypes {
    /// Element type of q, and of o unless it has its own. Where q is stored as e4m3 it is what kernels compute in.
    pub qo: Dtype,
    /// Element type of k and v; [`Dtype::U8`] if they are stored in a format.
    pub kv: Dtype,
    /// The formats of keys and values, if they are no numbers: [`Dtypes::with_kv_format`] sets them.
    pub format: Option<KvFormatId>,
    /// Element type of o where it is not that of q: [`Dtypes::with_output`] sets it.
    pub o: Option<Dtype>,
    /// Element type of q in memory where it is not `qo`: [`Dtypes::with_queries`] sets it.
    pub q: Option<Dtype>,
}

/// Element types that no attention has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum DtypesError {
    /// Queries and outputs of a type that they cannot have.
    #[error("q and o are {qo}, which is a type of keys and values alone; q and o may be f16, bf16 or f32")]
    Qo { qo: Dtype },
    /// Outputs of a type that they cannot have.
    #[error("o is {o}; it may be f16, bf16, f32, or e4m3 with a scale (`Out::with_scale`)")]
    Output { o: Dtype },
    /// Queries of a type that they cannot have.
    #[error("q is stored as {q}; it may be f16, bf16 or f32, or e4m3 with a scale (`Kv::with_query_scale`)")]
    Queries { q: Dtype },
    /// Bytes without a format.
    #[error(
        "k and v are u8, bytes whose meaning a KV format says; name one with `Dtypes::with_kv_format(\"int8\")`, or \
         give the variant one with `Variant::with_kv_formats`"
    )]
    NoFormat,
    /// A format, and elements that are no bytes.
    #[error(
        "k and v are {kv} and have the format {format}; stored rows of a format are bytes, so make the types with \
         `Dtypes::with_kv_format`, or k and v `Dtype::U8`"
    )]
    FormatOf { kv: Dtype, format: KvFormatId },
    /// The variant and the element types name different formats.
    #[error("the variant is over {variant}, and the element types say {dtypes}; name the format in one place")]
    TwoFormats { variant: KvFormatId, dtypes: KvFormatId },
    /// Values that are the first elements of keys in another format than these.
    #[error(
        "values are the first elements of the keys, so both have one format; the formats are {format}: name that of \
         the keys alone"
    )]
    Shared { format: KvFormatId },
}

impl Dtypes {
    /// Types of q and o, and of k and v.
    #[must_use]
    pub const fn new(qo: Dtype, kv: Dtype) -> Self {
        Dtypes { qo, kv, format: None, o: None, q: None }
    }
    /// bf16 for all tensors.
    #[must_use]
    pub const fn bf16() -> Self {
        Self::new(Dtype::Bf16, Dtype::Bf16)
    }
    /// f16 for all tensors.
    #[must_use]
    pub const fn f16() -> Self {
        Self::new(Dtype::F16, Dtype::F16)
    }
    /// f32 for all tensors. On a GPU they run on CUDA cores.
    #[must_use]
    pub const fn f32() -> Self {
        Self::new(Dtype::F32, Dtype::F32)
    }
    /// The same types with another type of k and v: `Dtypes::bf16().with_kv(Dtype::E4m3)`.
    #[must_use]
    pub const fn with_kv(self, kv: Dtype) -> Self {
        Dtypes { kv, format: None, ..self }
    }
    /// The same types with another type of o: `Dtypes::bf16().with_output(Dtype::E4m3)`. A row is rounded once, from
    /// f32, after all that finalizes it.
    #[must_use]
    pub fn with_output(self, o: Dtype) -> Self {
        Dtypes { o: (o != self.qo).then_some(o), ..self }
    }
    /// The same types with q of e4m3 in memory: `Dtypes::bf16().with_queries(Dtype::E4m3)`. Kernels multiply elements
    /// by their scale as they load them, and compute in `qo`, which o has as well unless it has its own.
    #[must_use]
    pub fn with_queries(self, q: Dtype) -> Self {
        Dtypes { q: (q != self.qo).then_some(q), ..self }
    }
    /// The element type of q in memory.
    #[must_use]
    pub fn queries(self) -> Dtype {
        self.q.unwrap_or(self.qo)
    }
    /// The element type of o.
    #[must_use]
    pub fn output(self) -> Dtype {
        self.o.unwrap_or(self.qo)
    }
    /// The same types with keys and values in formats.
    #[must_use]
    pub const fn with_format(self, format: KvFormatId) -> Self {
        Dtypes { kv: Dtype::U8, format: Some(format), ..self }
    }
    /// Checks that q and o have types that they can have, and that k and v are bytes where they have a format, and only
    /// there. Each backend checks which of them it has a kernel for.
    ///
    /// # Errors
    ///
    /// [`DtypesError`] says what does not go together.
    pub fn check(self) -> Result<(), DtypesError> {
        self.check_qo()?;
        self.check_format()
    }
    /// Checks the types of q and o.
    ///
    /// # Errors
    ///
    /// [`DtypesError::Qo`], [`DtypesError::Output`] and [`DtypesError::Queries`].
    pub fn check_qo(self) -> Result<(), DtypesError> {
        match (self.qo, self.o) {
            (qo, _) if qo.size() == 1 => Err(DtypesError::Qo { qo }),
            (_, Some(o @ (Dtype::E5m2 | Dtype::U8))) => Err(DtypesError::Output { o }),
            _ => self.q.filter(|&q| q != Dtype::E4m3).map_or(Ok(()), |q| Err(DtypesError::Queries { q })),
        }
    }
    /// Checks that k and v are bytes where they have a format, and only there.
    pub(crate) fn check_format(self) -> Result<(), DtypesError> {
        match (self.kv, self.format) {
            (Dtype::U8, None) => Err(DtypesError::NoFormat),
            (kv, Some(format)) if kv != Dtype::U8 => Err(DtypesError::FormatOf { kv, format }),
            _ => Ok(()),
        }
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
            let all = Dtypes::new(dtype, dtype).check();
            assert_eq!(all, if dtype.is_fp8() { Err(DtypesError::Qo { qo: dtype }) } else { Ok(()) });
        }
        let text = Dtypes::new(Dtype::E5m2, Dtype::F16).check().expect_err("q is fp8").to_string();
        assert!(text.contains("q and o are e5m2") && text.contains("f16, bf16 or f32"), "{text}");
        assert_eq!(Dtypes::bf16().with_output(Dtype::Bf16), Dtypes::bf16());
        for o in [Dtype::F16, Dtype::F32, Dtype::E4m3] {
            let types = Dtypes::bf16().with_output(o).with_kv(Dtype::E4m3);
            assert_eq!((types.output(), types.kv, types.check()), (o, Dtype::E4m3, Ok(())));
        }
        let types = Dtypes::bf16().with_queries(Dtype::E4m3).with_kv(Dtype::E4m3);
        assert_eq!((types.queries(), types.output(), types.check()), (Dtype::E4m3, Dtype::Bf16, Ok(())));
        let text = Dtypes::bf16().with_queries(Dtype::F16).check().expect_err("q is f16").to_string();
        assert!(text.contains("q is stored as f16") && text.contains("with_query_scale"), "{text}");
        let text = Dtypes::bf16().with_output(Dtype::E5m2).check().expect_err("o is e5m2").to_string();
        assert!(text.contains("o is e5m2") && text.contains("e4m3 with a scale"), "{text}");
        assert_eq!(Dtypes::new(Dtype::U8, Dtype::F16).check(), Err(DtypesError::Qo { qo: Dtype::U8 }));
        let text = Dtypes::new(Dtype::F16, Dtype::U8).check().expect_err("bytes of no format").to_string();
        assert!(text.contains("with_kv_format"), "{text}");
    }
}
