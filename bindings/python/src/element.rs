//! The types of elements.

use attn::Dtype;

use crate::error::Failure;

/// The types of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    F32,
    E4m3,
    E5m2,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F64,
    Bool,
}

impl Element {
    pub(crate) const POSSIBLE: &'static str = "tensors are float16, bfloat16 or float32, keys and values also \
        float8_e4m3fn, float8_e5m2, or uint8 with a `kv_format`";

    /// The type of a name, such as `float16` or `torch.float16`.
    pub(crate) fn parse(text: &str, what: &str) -> Result<Self, Failure> {
        let name = text.rsplit('.').next().unwrap_or(text);
        let known = Element::ALL.into_iter().find(|element| element.name() == name);
        known.ok_or_else(|| Failure::argument(format!("{what} is `{text}`; {}", Element::POSSIBLE)))
    }

    pub(crate) fn dtype(self, name: &str) -> Result<Dtype, Failure> {
        match self {
            Element::F16 => Ok(Dtype::F16),
            Element::Bf16 => Ok(Dtype::Bf16),
            Element::F32 => Ok(Dtype::F32),
            Element::E4m3 => Ok(Dtype::E4m3),
            Element::E5m2 => Ok(Dtype::E5m2),
            Element::U8 => Ok(Dtype::U8),
            Element::U16 | Element::U32 | Element::U64 | Element::I8 | Element::I16 | Element::I32 | Element::I64 => {
                Err(Failure::tensor(format!("{name} is of {}, whole numbers; {}", self.name(), Element::POSSIBLE)))
            }
            Element::F64 | Element::Bool => {
                Err(Failure::tensor(format!("{name} is of {}; {}", self.name(), Element::POSSIBLE)))
            }
        }
    }

    /// Bytes of an element.
    pub(crate) fn size(self) -> usize {
        match self {
            Element::E4m3 | Element::E5m2 | Element::U8 | Element::I8 | Element::Bool => 1,
            Element::F16 | Element::Bf16 | Element::U16 | Element::I16 => 2,
            Element::F32 | Element::U32 | Element::I32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
        }
    }

    /// Its name in numpy and torch.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Element::F16 => "float16",
            Element::Bf16 => "bfloat16",
            Element::F32 => "float32",
            Element::E4m3 => "float8_e4m3fn",
            Element::E5m2 => "float8_e5m2",
            Element::U8 => "uint8",
            Element::U16 => "uint16",
            Element::U32 => "uint32",
            Element::U64 => "uint64",
            Element::I8 => "int8",
            Element::I16 => "int16",
            Element::I32 => "int32",
            Element::I64 => "int64",
            Element::F64 => "float64",
            Element::Bool => "bool",
        }
    }

    /// All of them, by their names.
    pub(crate) const ALL: [Element; 15] = [
        Element::F16,
        Element::Bf16,
        Element::F32,
        Element::E4m3,
        Element::E5m2,
        Element::U8,
        Element::U16,
        Element::U32,
        Element::U64,
        Element::I8,
        Element::I16,
        Element::I32,
        Element::I64,
        Element::F64,
        Element::Bool,
    ];
}
