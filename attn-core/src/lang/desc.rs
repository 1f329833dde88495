//! What the macros make of a variant: its name, its fields, and its CUDA text.
//!
//! `#[attention_variant]` sees neither the struct's fields nor constants nor helper functions, so its text is
//! *type-agnostic*: operators are overloaded device functions, field types come from the derive through
//! [`VariantDesc::fields`], constants and [`DeviceFn`]s are linked by path. The pieces meet when a kernel is spliced.

use super::{
    ErasedVariant, Normalizer, ParamError, ParamValues,
    device_type::{TypeDesc, TypeLink},
};

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

/// One hook that the user wrote, as a C++ member function of the variant's struct (indented by no spaces,
/// `#line` directives inside). Signature by hook:
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
/// int kv_list_len(RowIndex at) const, kv_list_block(RowIndex at, int n) const, kv_list_block_size() const, kv_list_queries() const
/// int remap_qo_pos(RowIndex at) const, remap_kv_pos(KvIndex at) const
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HookText {
    /// Which hook.
    pub hook: Hook,
    /// The member function.
    pub cuda: &'static str,
}

/// A `#[device_fn]`: a helper that hooks may call, on either side.
#[derive(Debug)]
pub struct DeviceFn {
    /// Its name, unique within a variant.
    pub name: &'static str,
    /// A static member function of the variant's struct.
    pub cuda: &'static str,
    /// The same over abstract values, for masks over tiles; see [`MaskText::over`].
    pub over: &'static str,
    /// Helpers that it calls.
    pub device_fns: &'static [&'static DeviceFn],
    /// Structs and enums that it names.
    pub types: &'static [TypeLink],
    /// Constants that it names.
    pub consts: &'static [ConstDesc],
}

/// The link to a helper, which the text calls by the last name of the path that the Rust calls.
///
/// # Panics
/// While compiling: `use .. as ..` gave the helper another name.
#[doc(hidden)]
#[must_use]
pub const fn device_fn(name: &str, helper: &'static DeviceFn) -> &'static DeviceFn {
    let (called, own) = (name.as_bytes(), helper.name.as_bytes());
    let mut same = called.len() == own.len();
    let mut i = 0;
    while same && i < own.len() {
        same = called[i] == own[i];
        i += 1;
    }
    assert!(same, "this helper was renamed by `use .. as ..`: a hook calls it by its own name");
    helper
}

/// A constant named in a hook.
#[derive(Clone, Copy, Debug)]
pub struct ConstDesc {
    /// The name under which the text uses it.
    pub name: &'static str,
    /// Its value.
    pub value: fn() -> ConstValue,
}

/// The value of a constant; bit-exact in the generated text.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum ConstValue {
    F32(f32),
    I32(i32),
    U32(u32),
    U64(u64),
    Bool(bool),
    /// A variant of an enum, by its value.
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
const_value_from!(f32 => F32, i32 => I32, u32 => U32, u64 => U64, bool => Bool);

/// A constant that a hook may name. Implemented for what [`ConstValue`] holds; of enums, by `#[device_type]`.
#[diagnostic::on_unimplemented(
    message = "a constant of type `{Self}` is not available in a hook",
    label = "use f32, i32, u32, u64, bool, or an enum with `#[device_type]`"
)]
pub trait HookConst {
    /// Its value.
    fn value(self) -> ConstValue;
}

/// Element types of scalars and captured tensors.
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

    /// Whether a table of these gives f32.
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
    /// A captured tensor: `Tensor2<float>` in the text.
    Tensor {
        /// Type of the elements.
        elem: Elem,
        /// 0 to 4.
        rank: u8,
    },
    /// A tensor of f32 that hooks store to: `OutTensor2` in the text.
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
    /// `#[default(..)]` as written; `None` when the parameter must be given (a tensor: before the variant is bound).
    pub default: Option<&'static str>,
    /// `#[require(..)]` as written: the condition a value must meet.
    pub require: Option<&'static str>,
    /// `#[monotone]`: no value is less than the one before it along the last axis.
    pub monotone: bool,
}

/// What the macro derives from a `logits_mask`.
#[derive(Clone, Copy, Debug)]
pub struct MaskText {
    /// `Tri mask_over(const Tile& at) const`: the mask over a whole tile; empty where nothing is derived.
    pub over: &'static str,
    /// `Bounds kv_bounds(const RowIndex& at) const`: the keys of a row, where they are provably an interval; else empty.
    pub bounds: &'static str,
    /// `Tile remap_over(const Tile& at) const`: the tile as the hooks inside of `remap` see it; empty without such hooks.
    pub remap: &'static str,
    /// Captured tensors that `over` asks for their least and greatest elements.
    pub tables: &'static [&'static str],
    /// Why nothing is derived, as a sentence for the user; else empty.
    pub why_not: &'static str,
}

impl MaskText {
    /// Nothing derived, and nothing to say.
    pub const NONE: MaskText = MaskText { over: "", bounds: "", remap: "", tables: &[], why_not: "" };
}

/// Everything known of a variant without running it.
#[derive(Debug)]
pub struct VariantDesc {
    /// Registered name, `snake_case`.
    pub name: &'static str,
    /// Name of the Rust struct, and of the C++ struct.
    pub type_name: &'static str,
    /// Doc comment of the impl, else of the struct; its first paragraph is the summary.
    pub doc: &'static str,
    /// File of the impl, as rustc names it.
    pub file: &'static str,
    /// Line of the impl.
    pub line: u32,
    /// The hooks written, in the order of [`Hook::ALL`].
    pub hooks: &'static [HookText],
    /// The normaliser.
    pub normalizer: Normalizer,
    /// `MAX_FLOOR`.
    pub max_floor: f32,
    /// Parameters in order.
    pub fields: &'static [FieldDesc],
    /// What is derived from `logits_mask`.
    pub mask: MaskText,
    /// `auto logits_bias(LogitIndex at) const`: where `logits_transform` does no more than to add something to the logit, what it
    /// adds; else empty.
    pub bias: &'static str,
    /// `float logits_slope(LogitIndex at) const`: where that is affine in the position of the key, by how much it grows from a key to the next; else empty.
    pub slope: &'static str,
    /// `auto logits_bias_row(LogitIndex at) const`: where that is the element of a captured tensor whose last index is the position of the key, the row of that tensor; else empty.
    pub bias_row: &'static str,
    /// `float logits_bound() const`: where `logits_transform` gives no more than so much in magnitude (or NaN) for any logit and index, how much; else empty. Infinite or NaN
    /// where parameters prove nothing.
    pub bound: &'static str,
    /// Scalars that a hook divides by: each has a member `Divisor<T> name_div_` beside it.
    pub divisors: &'static [&'static str],
    /// Whether a hook stores to an output tensor: kernels then call hooks only for logits and rows that are there.
    pub stores: bool,
    /// Whether a hook reads `kv_slot`: the CPU then gives it keys of one block of a list at a time.
    pub slots: bool,
    /// Of the index words `batch`, `kv_token` and `kv_len`, those that `key_transform`, `value_transform` or `remap_kv_pos` reads: keys that requests
    /// share have none of them.
    pub kv_words: &'static [&'static str],
    /// Helpers that the hooks call directly.
    pub device_fns: &'static [&'static DeviceFn],
    /// Structs and enums that the hooks name directly.
    pub types: &'static [TypeLink],
    /// Constants that the hooks name directly.
    pub consts: &'static [ConstDesc],
    /// Makes the variant from parameters by name.
    pub make: fn(&ParamValues) -> Result<Box<dyn ErasedVariant>, ParamError>,
}

impl VariantDesc {
    /// Whether the user wrote this hook.
    #[must_use]
    pub fn has(&self, hook: Hook) -> bool {
        self.hooks.iter().any(|h| h.hook == hook)
    }
}
