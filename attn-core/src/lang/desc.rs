//! Descriptors that the macros generate: hooks, helpers, constants and parameters of a variant, with their CUDA text.
//!
//! `#[attention_variant]` sees neither the fields of the struct nor constants and helper functions. So its text is
//! *type-agnostic*: operators are overloaded device functions, types of fields come from
//! [`VariantDesc::fields`](super::VariantDesc::fields), which the derive writes, and constants and [`DeviceFn`]s are
//! linked by path. The splice of a kernel joins them.

use super::Dims;
use super::device_type::{TypeDesc, TypeLink};

/// The hooks of [`AttentionVariant`](super::AttentionVariant).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // each is the method of the same name
pub enum Hook {
    QueryTransform,
    KeyTransform,
    ValueTransform,
    LogitsTransform,
    LogitsMask,
    Weight,
    Denominator,
    SinkLogit,
    OutputTransform,
    KvRange,
    KvListLen,
    KvListBlock,
    KvListBlockSize,
    KvListQueries,
    RemapQoPos,
    RemapKvPos,
}

impl Hook {
    /// Every hook, in the order of the trait.
    pub const ALL: [Hook; 16] = [
        Hook::QueryTransform,
        Hook::KeyTransform,
        Hook::ValueTransform,
        Hook::LogitsTransform,
        Hook::LogitsMask,
        Hook::Weight,
        Hook::Denominator,
        Hook::SinkLogit,
        Hook::OutputTransform,
        Hook::KvRange,
        Hook::KvListLen,
        Hook::KvListBlock,
        Hook::KvListBlockSize,
        Hook::KvListQueries,
        Hook::RemapQoPos,
        Hook::RemapKvPos,
    ];

    /// The name of the method.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Hook::QueryTransform => "query_transform",
            Hook::KeyTransform => "key_transform",
            Hook::ValueTransform => "value_transform",
            Hook::LogitsTransform => "logits_transform",
            Hook::LogitsMask => "logits_mask",
            Hook::Weight => "weight",
            Hook::Denominator => "denominator",
            Hook::SinkLogit => "sink_logit",
            Hook::OutputTransform => "output_transform",
            Hook::KvRange => "kv_range",
            Hook::KvListLen => "kv_list_len",
            Hook::KvListBlock => "kv_list_block",
            Hook::KvListBlockSize => "kv_list_block_size",
            Hook::KvListQueries => "kv_list_queries",
            Hook::RemapQoPos => "remap_qo_pos",
            Hook::RemapKvPos => "remap_kv_pos",
        }
    }
}

/// A hook that the user wrote, as a C++ member function of the variant's struct, not indented, with `#line` directives.
/// Signatures:
///
/// ```text
/// template <class R> void query_transform(R& q, RowIndex at) const      (also key_, value_: KvIndex)
/// float logits_transform(float logit, LogitIndex at) const
/// bool  logits_mask(LogitIndex at) const
/// float weight(float logit, float row_max, LogitIndex at) const
/// float denominator(float logit, float row_max, float weight, LogitIndex at) const
/// float sink_logit(RowIndex at) const
/// template <class R> void output_transform(R& o, RowState state, RowIndex at) const
/// Tuple2<int, int> kv_range(QueryTile tile) const
/// int kv_list_len(RowIndex at) const, kv_list_block(RowIndex at, int n) const
/// int kv_list_block_size() const, kv_list_queries() const
/// int remap_qo_pos(RowIndex at) const, remap_kv_pos(KvIndex at) const
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HookText {
    /// Which hook.
    pub hook: Hook,
    /// The member function.
    pub cuda: &'static str,
}

/// A coordinate that a hook reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinateRead {
    /// Which hook.
    pub hook: Hook,
    /// `kv_pos`, `qo_head`, ..
    pub coordinate: &'static str,
    /// Whether it is an index of parameter tensors and nothing else: their shape tells what it has to be.
    pub is_index: bool,
}

/// A `#[device_fn]`: a helper function that hooks call, on CPU and GPU.
#[derive(Debug)]
pub struct DeviceFn {
    /// Its name, unique within a variant.
    pub name: &'static str,
    /// Its text: a static member function of the variant's struct.
    pub cuda: &'static str,
    /// Its text in KV formats, which give the same bits on every device; empty where it is [`Self::cuda`].
    pub exact: &'static str,
    /// A function that it calls whose last bits differ between devices, such as `exp`; empty if there is none.
    pub inexact: &'static str,
    /// The same function over abstract values, for tile classes; see [`MaskText::over`].
    pub over: &'static str,
    /// Helpers that it calls.
    pub device_fns: &'static [&'static DeviceFn],
    /// Structs and enums that it names.
    pub types: &'static [TypeLink],
    /// Constants that it names.
    pub consts: &'static [ConstDesc],
}

/// Links a helper, given with its name in the text. The CUDA text calls it by the last segment of its Rust path.
///
/// # Panics
/// At compile time, if `use .. as ..` gave the helper another name.
#[doc(hidden)]
#[must_use]
pub const fn device_fn(name: &str, helper: (&str, &'static DeviceFn)) -> &'static DeviceFn {
    // reading the descriptor itself would be a cycle where two helpers call each other
    let (called, own) = (name.as_bytes(), helper.0.as_bytes());
    let mut same = called.len() == own.len();
    let mut i = 0;
    while same && i < own.len() {
        same = called[i] == own[i];
        i += 1;
    }
    assert!(same, "this helper was renamed by `use .. as ..`: a hook calls it by its own name");
    helper.1
}

/// A constant named in a hook.
#[derive(Clone, Copy, Debug)]
pub struct ConstDesc {
    /// Its name in the text.
    pub name: &'static str,
    /// Its value.
    pub value: ConstSource,
}

/// Where the value of a constant comes from.
#[derive(Clone, Copy, Debug)]
pub enum ConstSource {
    /// Code that rustc compiled.
    Compiled(fn() -> ConstValue),
    /// Rust text that was read at run time.
    Text(ConstValue),
}

impl ConstSource {
    /// The value.
    #[must_use]
    pub fn get(self) -> ConstValue {
        match self {
            ConstSource::Compiled(value) => value(),
            ConstSource::Text(value) => value,
        }
    }
}

/// The value of a constant; the generated text has it bit by bit.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum ConstValue {
    F32(f32),
    I32(i32),
    U32(u32),
    U64(u64),
    I64(i64),
    Bool(bool),
    /// A variant of an enum and its value.
    Enum(&'static TypeDesc, i32),
}

macro_rules! const_value_from {
    ($($t:ty => $v:ident),*) => {$(
        impl From<$t> for ConstValue {
            fn from(x: $t) -> Self { ConstValue::$v(x) }
        }
        impl HookConst for $t {
            fn value(self) -> ConstValue { ConstValue::$v(self) }
        }
    )*};
}
const_value_from!(f32 => F32, i32 => I32, u32 => U32, u64 => U64, i64 => I64, bool => Bool);

/// A constant that a hook may name: of a type that [`ConstValue`] holds, or of an enum with `#[device_type]`.
#[diagnostic::on_unimplemented(
    message = "a constant of type `{Self}` is not available in a hook",
    label = "use f32, i32, u32, u64, i64, bool, or an enum with `#[device_type]`"
)]
pub trait HookConst {
    /// Its value.
    fn value(self) -> ConstValue;
}

/// Element types of scalars and parameter tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Elem {
    F32,
    F16,
    Bf16,
    F8E4M3,
    F8E5M2,
    I32,
    U32,
    U8,
    Bool,
    /// Bools, eight in a byte.
    Bits,
}

impl Elem {
    /// The Rust name of the type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Elem::F32 => "f32",
            Elem::F16 => "f16",
            Elem::Bf16 => "bf16",
            Elem::F8E4M3 => "F8E4M3",
            Elem::F8E5M2 => "F8E5M2",
            Elem::I32 => "i32",
            Elem::U32 => "u32",
            Elem::U8 => "u8",
            Elem::Bool => "bool",
            Elem::Bits => "Bits",
        }
    }

    /// Whether an index of a tensor of this type gives f32.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Elem::F32 | Elem::F16 | Elem::Bf16 | Elem::F8E4M3 | Elem::F8E5M2)
    }
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// A scalar, passed by value as 4 bytes (bool as `int`): f32, i32, u32 or bool.
    Scalar(Elem),
    /// A parameter tensor: `Tensor2<float>` in the text.
    Tensor {
        /// Type of the elements.
        elem: Elem,
        /// 0 to 4.
        rank: u8,
    },
    /// An output tensor of f32 that hooks store to: `OutTensor2` in the text.
    Out {
        /// 1 to 4.
        rank: u8,
    },
}

/// The Rust type: `f32`, `Tensor1<f32>`.
impl std::fmt::Display for FieldType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FieldType::Scalar(elem) => f.write_str(elem.name()),
            FieldType::Tensor { elem, rank } => write!(f, "Tensor{rank}<{}>", elem.name()),
            FieldType::Out { rank } => write!(f, "OutTensor{rank}"),
        }
    }
}

/// One parameter of a variant, from `#[derive(VariantParams)]`.
#[derive(Clone, Copy, Debug)]
pub struct FieldDesc {
    /// Field name.
    pub name: &'static str,
    /// Doc comment.
    pub doc: &'static str,
    /// Type.
    pub ty: FieldType,
    /// `#[shape(..)]` as written; empty for scalars.
    pub shape: &'static str,
    /// `#[default(..)]` as written; `None` when the parameter must be given (a tensor: before binding).
    pub default: Option<&'static str>,
    /// `#[require(..)]` as written: the condition that its value must meet.
    pub require: Option<&'static str>,
    /// `#[monotone]`: values never decrease along the last axis.
    pub monotone: bool,
    /// `#[mutable]`: values change while plans live on, so neither plans nor tile classes depend on them.
    pub mutable: bool,
    /// The axes (bit 0: the first) that grow with a count of the batch. A tensor may be larger along them than the
    /// batch needs.
    pub growing_axes: u8,
}

impl FieldDesc {
    /// Whether an axis grows with a count of the batch, so that the tensor may be larger than the batch needs.
    #[must_use]
    pub const fn grows_along(&self, axis: usize) -> bool {
        axis < 8 && self.growing_axes >> axis & 1 == 1
    }

    /// Whether the shape names one of these dimensions.
    #[must_use]
    pub fn shape_names(&self, dims: &[&str]) -> bool {
        names(self.shape, dims)
    }

    /// The extents of the shape, as written. A shape has operators and no calls, so commas separate extents alone.
    pub fn extents(&self) -> impl Iterator<Item = &'static str> {
        self.shape.split(',').map(str::trim)
    }

    /// Whether an axis that does not grow so names one of these dimensions.
    #[must_use]
    pub fn exact_axis_names(&self, dims: &[&str]) -> bool {
        let mut extents = self.extents().enumerate();
        extents.any(|(axis, extent)| !self.grows_along(axis) && names(extent, dims))
    }

    /// Whether an extent is computed from one of these dimensions, and is not the dimension itself.
    #[must_use]
    pub fn computes_extent_of(&self, dims: &[&str]) -> bool {
        self.extents().any(|extent| !dims.contains(&extent) && names(extent, dims))
    }

    /// Whether the values are computed from a default for each batch, where they are not given.
    #[must_use]
    pub fn has_default_over_batch(&self) -> bool {
        self.default.is_some() && self.shape_names(&Dims::OF_BATCH)
    }

    /// Whether the condition names one of these dimensions.
    #[must_use]
    pub fn require_names(&self, dims: &[&str]) -> bool {
        names(self.require.unwrap_or_default(), dims)
    }
}

fn names(text: &str, dims: &[&str]) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| dims.contains(&word))
}

/// Text that the macro derives from `logits_mask`.
#[derive(Clone, Copy, Debug)]
pub struct MaskText {
    /// `Tristate mask_over(const Tile& at) const`: the mask over a whole tile by abstract interpretation; empty where
    /// none is derived.
    pub over: &'static str,
    /// `Bounds kv_bounds(const RowIndex& at) const`: the keys of a row, where the mask is provably an interval of keys;
    /// else empty.
    pub bounds: &'static str,
    /// `Tile remap_over(const Tile& at) const`: the tile as the inner hooks of `remap` see it; empty for parts that
    /// remap nothing.
    pub remap: &'static str,
    /// Parameter tensors of which `over` needs element bounds.
    pub tables: &'static [&'static str],
    /// Why nothing is derived, or of a part of the mask nothing, as a sentence for the user; empty otherwise.
    pub why_not: &'static str,
}

impl MaskText {
    /// No text, and no reason.
    pub const NONE: MaskText = MaskText { over: "", bounds: "", remap: "", tables: &[], why_not: "" };
}
