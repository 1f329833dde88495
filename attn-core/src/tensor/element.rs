//! The Rust types of tensor elements.

use half::{bf16, f16};

use crate::dtype::Dtype;
use crate::lang::{F8E4M3, F8E5M2};

/// The Rust type of a [`Dtype`]. Sealed: `f32`, `half::f16`, `half::bf16`, and for keys and values [`F8E4M3`] and
/// [`F8E5M2`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type",
    label = "use f32, half::f16, half::bf16, or for keys and values F8E4M3 or F8E5M2"
)]
pub trait Element: bytemuck::Pod + Send + Sync + sealed::Sealed {
    /// The dtype.
    const DTYPE: Dtype;
    /// Rounds to nearest, ties to even. Values beyond the greatest finite one become infinities in f16 and bf16, and
    /// saturate to it in the types of 8 bits, like CUDA's `cvt.rn.satfinite`, which appends to a cache. NaN stays NaN.
    ///
    /// `F8E5M2::from_f32` is another conversion, which gives infinities: that of parameter tensors.
    fn from_f32(x: f32) -> Self;
    /// Converts exactly.
    fn to_f32(self) -> f32;
}

impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;
    fn from_f32(x: f32) -> Self {
        x
    }
    fn to_f32(self) -> f32 {
        self
    }
}

impl Element for f16 {
    const DTYPE: Dtype = Dtype::F16;
    fn from_f32(x: f32) -> Self {
        f16::from_f32(x)
    }
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
}

impl Element for bf16 {
    const DTYPE: Dtype = Dtype::Bf16;
    fn from_f32(x: f32) -> Self {
        bf16::from_f32(x)
    }
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }
}

impl Element for F8E4M3 {
    const DTYPE: Dtype = Dtype::E4m3;
    fn from_f32(x: f32) -> Self {
        F8E4M3::from_f32(x)
    }
    fn to_f32(self) -> f32 {
        F8E4M3::to_f32(self)
    }
}

impl Element for F8E5M2 {
    const DTYPE: Dtype = Dtype::E5m2;
    fn from_f32(x: f32) -> Self {
        // NaN passes through a clamp
        F8E5M2::from_f32(x.clamp(-Self::MAX, Self::MAX))
    }
    fn to_f32(self) -> f32 {
        F8E5M2::to_f32(self)
    }
}

mod sealed {
    use crate::lang::{F8E4M3, F8E5M2};

    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for F8E4M3 {}
    impl Sealed for F8E5M2 {}
}
