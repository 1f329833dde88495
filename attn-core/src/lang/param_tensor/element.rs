//! Element types of parameter tensors.

use std::fmt;

use bytemuck::{NoUninit, Pod, Zeroable};
use half::{bf16, f16};

use super::fp8::{F8E4M3, F8E5M2};
use crate::lang::ParamValue;
use crate::lang::desc::Elem;
use crate::lang::scalar::{ReadError, Scalar};

/// Eight bools in a byte, the first in the lowest bit: the element type of bit sets.
///
/// Bits are packed without gaps, also across rows: element (i, j) of n columns is bit i n + j.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Bits(
    /// The bools.
    pub u8,
);

/// An element type of parameter tensors. Sealed: f32, f16, bf16, [`F8E4M3`], [`F8E5M2`], i32, u32, u8, bool, [`Bits`].
#[diagnostic::on_unimplemented(
    message = "a parameter tensor cannot have elements of type `{Self}`",
    label = "use f32, f16, bf16, F8E4M3, F8E5M2, i32, u32, u8, bool or Bits"
)]
pub trait ParamElement: sealed::Sealed + NoUninit + PartialEq + fmt::Debug + Send + Sync {
    /// How descriptors name the type.
    const ELEM: Elem;
    /// The type that an index gives: itself, f32 for floats of 16 and 8 bits, bool for [`Bits`].
    type Value: Scalar;
    /// Elements packed into one value of this type.
    #[doc(hidden)]
    const PACKED: usize = 1;
    /// The result of indexing a tensor without elements: indexing never panics, and binding refuses such a tensor.
    #[doc(hidden)]
    fn zero() -> &'static Self::Value;
    /// The decoded values of types whose index result is not stored; else empty.
    #[doc(hidden)]
    fn decode(_stored: &[Self]) -> Vec<f32> {
        Vec::new()
    }
    /// Element `i`, which must exist.
    #[doc(hidden)]
    fn value<'a>(stored: &'a [Self], decoded: &'a [f32], i: usize) -> &'a Self::Value;
    /// Encodes values, each rounded to the nearest.
    #[doc(hidden)]
    fn encode(values: Vec<Self::Value>) -> Vec<Self>;
    /// Reads a value by name, if the element type can hold it.
    #[doc(hidden)]
    fn read_elem(value: &ParamValue) -> Result<Self::Value, ReadError> {
        Self::Value::read(value)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Types that an index gives as they are.
macro_rules! plain {
    ($($t:ty: $elem:ident, $zero:expr;)*) => {$(
        impl sealed::Sealed for $t {}
        impl ParamElement for $t {
            const ELEM: Elem = Elem::$elem;
            type Value = $t;
            fn zero() -> &'static $t {
                const ZERO: $t = $zero;
                &ZERO
            }
            fn value<'a>(stored: &'a [$t], _: &'a [f32], i: usize) -> &'a $t {
                &stored[i]
            }
            fn encode(values: Vec<$t>) -> Vec<$t> {
                values
            }
        }
    )*};
}
plain! {
    f32: F32, 0.0;
    i32: I32, 0;
    u32: U32, 0;
    u8: U8, 0;
    bool: Bool, false;
}

/// Floats that an index gives as f32.
macro_rules! narrow {
    ($($t:ty: $elem:ident, $max:expr;)*) => {$(
        impl sealed::Sealed for $t {}
        impl ParamElement for $t {
            const ELEM: Elem = Elem::$elem;
            type Value = f32;
            fn zero() -> &'static f32 {
                &0.0
            }
            fn decode(stored: &[$t]) -> Vec<f32> {
                stored.iter().map(|x| x.to_f32()).collect()
            }
            fn value<'a>(_: &'a [$t], decoded: &'a [f32], i: usize) -> &'a f32 {
                &decoded[i]
            }
            fn encode(values: Vec<f32>) -> Vec<$t> {
                values.into_iter().map(<$t>::from_f32).collect()
            }
            fn read_elem(value: &ParamValue) -> Result<f32, ReadError> {
                let x = f32::read(value)?;
                let has_infinity = <$t>::from_f32(f32::INFINITY).to_f32().is_infinite();
                if x.abs() > $max && !(x.is_infinite() && has_infinity) {
                    return Err(ReadError::Range(format!("magnitudes up to {}", $max)));
                }
                Ok(x)
            }
        }
    )*};
}
narrow! {
    f16: F16, f32::from(f16::MAX);
    bf16: Bf16, f32::from(bf16::MAX);
    F8E4M3: F8E4M3, F8E4M3::MAX;
    F8E5M2: F8E5M2, F8E5M2::MAX;
}

impl sealed::Sealed for Bits {}
impl ParamElement for Bits {
    const ELEM: Elem = Elem::Bits;
    type Value = bool;
    const PACKED: usize = 8;
    fn zero() -> &'static bool {
        &false
    }
    fn value<'a>(stored: &'a [Bits], _: &'a [f32], i: usize) -> &'a bool {
        if stored[i / 8].0 >> (i % 8) & 1 == 1 { &true } else { &false }
    }
    fn encode(values: Vec<bool>) -> Vec<Bits> {
        let byte = |eight: &[bool]| Bits(eight.iter().rev().fold(0, |byte, &x| byte << 1 | u8::from(x)));
        values.chunks(8).map(byte).collect()
    }
}
