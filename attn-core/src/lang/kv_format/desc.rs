//! The descriptor of a KV format, and its object-safe form.

use std::fmt;

use super::{KvFormat, LinearCodes, Packed, PackedMut, extents::Extents};
use crate::lang::desc::{ConstDesc, DeviceFn, FieldDesc};
use crate::lang::device_type::TypeLink;
use crate::lang::params::{ErasedParams, ParamError, ParamValues};

/// Makes the format of a descriptor.
pub type MakeKvFormat = fn(&'static KvFormatDesc, &ParamValues) -> Result<Box<dyn ErasedKvFormat>, ParamError>;

/// The descriptor of a KV format: everything known without running it.
#[derive(Clone, Copy, Debug)]
pub struct KvFormatDesc {
    /// Registered name, `snake_case`.
    pub name: &'static str,
    /// Name of the Rust struct.
    pub type_name: &'static str,
    /// Doc comment of the impl, else of the struct; its first paragraph is the summary.
    pub doc: &'static str,
    /// File of the impl, as rustc names it.
    pub file: &'static str,
    /// Line of the impl.
    pub line: u32,
    /// Parameters in order.
    pub fields: &'static [FieldDesc],
    /// `template <class R, class C, class S> void encode(const R& x, C& codes, S& side, int kv_head) const`.
    pub encode: &'static str,
    /// `template <class Eight = Array<float, 8>, class C, class S> Eight decode(C codes, S side, int kv_head, int d)
    /// const`.
    pub decode: &'static str,
    /// `template <class S> float scale(S side, int kv_head, int group) const`, or empty.
    pub scale: &'static str,
    /// `template <class S> float zero(S side, int kv_head, int group) const`, or empty.
    pub zero: &'static str,
    /// `float level(int code) const`, or empty.
    pub level: &'static str,
    /// What the functions touch of a row.
    pub extents: Extents,
    /// Scalars that the functions divide by; each has a member `Divisor<T> name_div_` beside it.
    pub divisors: &'static [&'static str],
    /// Helpers that the functions call directly.
    pub device_fns: &'static [&'static DeviceFn],
    /// Structs and enums that the functions name directly.
    pub types: &'static [TypeLink],
    /// Constants that the functions name directly.
    pub consts: &'static [ConstDesc],
    /// Makes the format of this descriptor from parameters by name.
    pub make: MakeKvFormat,
}

/// A KV format with a descriptor: `#[kv_format]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a KV format",
    label = "this is no KV format",
    note = "write `#[kv_format] impl KvFormat for {Self} {{ .. }}`"
)]
pub trait DescribedKvFormat {
    /// The descriptor. There is one per program: its address identifies the format.
    fn desc() -> &'static KvFormatDesc;
}

/// A type-erased KV format. Loops over a row are monomorphised, so there is one virtual call per row.
pub trait ErasedKvFormat: ErasedParams {
    /// Its descriptor.
    fn desc(&self) -> &'static KvFormatDesc;
    /// A boxed copy.
    fn clone_box(&self) -> Box<dyn ErasedKvFormat>;
    /// See [`KvFormat::code_bytes`].
    fn code_bytes(&self, dim: i32) -> i32;
    /// See [`KvFormat::side_bytes`].
    fn side_bytes(&self, dim: i32) -> i32;
    /// See [`KvFormat::linear`].
    fn linear(&self) -> Option<LinearCodes>;
    /// See [`KvFormat::scale`].
    fn scale_of(&self, side: &[u8], kv_head: i32, group: i32) -> f32;
    /// See [`KvFormat::zero`].
    fn zero_of(&self, side: &[u8], kv_head: i32, group: i32) -> f32;
    /// See [`KvFormat::level`].
    fn level_of(&self, code: i32) -> f32;
    /// Stores a row of a head dimension.
    fn encode_row(&self, x: &[f32], codes: &mut [u8], side: &mut [u8], kv_head: i32);
    /// Reads the first elements of a stored row, as many as `x` has.
    fn decode_row(&self, codes: &[u8], side: &[u8], kv_head: i32, x: &mut [f32]);
}

impl<F: KvFormat + DescribedKvFormat> ErasedKvFormat for F {
    fn desc(&self) -> &'static KvFormatDesc {
        F::desc()
    }
    fn clone_box(&self) -> Box<dyn ErasedKvFormat> {
        Box::new(self.clone())
    }
    fn code_bytes(&self, dim: i32) -> i32 {
        KvFormat::code_bytes(self, dim)
    }
    fn side_bytes(&self, dim: i32) -> i32 {
        KvFormat::side_bytes(self, dim)
    }
    fn linear(&self) -> Option<LinearCodes> {
        KvFormat::linear(self)
    }
    fn scale_of(&self, side: &[u8], kv_head: i32, group: i32) -> f32 {
        self.scale(Packed::new(side), kv_head, group)
    }
    fn zero_of(&self, side: &[u8], kv_head: i32, group: i32) -> f32 {
        self.zero(Packed::new(side), kv_head, group)
    }
    fn level_of(&self, code: i32) -> f32 {
        self.level(code)
    }
    fn encode_row(&self, x: &[f32], codes: &mut [u8], side: &mut [u8], kv_head: i32) {
        self.encode(&x, &mut PackedMut::new(codes), &mut PackedMut::new(side), kv_head);
    }
    fn decode_row(&self, codes: &[u8], side: &[u8], kv_head: i32, x: &mut [f32]) {
        for (d, eight) in (0..).step_by(8).zip(x.chunks_mut(8)) {
            let values = self.decode(Packed::new(codes), Packed::new(side), kv_head, d);
            eight.copy_from_slice(&values[..eight.len()]);
        }
    }
}

/// Makes a type-erased format from values by name: [`KvFormatDesc::make`].
///
/// # Errors
/// The errors of [`VariantParams::from_values`](crate::lang::VariantParams::from_values).
pub fn make<F: KvFormat + DescribedKvFormat>(
    _desc: &'static KvFormatDesc,
    values: &ParamValues,
) -> Result<Box<dyn ErasedKvFormat>, ParamError> {
    Ok(Box::new(F::from_values(values)?))
}

impl Clone for Box<dyn ErasedKvFormat> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

/// `int4(group=32)`.
impl fmt::Display for dyn ErasedKvFormat + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_values().write_call(f, self.desc().name)
    }
}

impl fmt::Debug for dyn ErasedKvFormat + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for dyn ErasedKvFormat + '_ {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.desc(), other.desc()) && self.to_values() == other.to_values()
    }
}
