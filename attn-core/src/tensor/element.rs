//! Rust types of elements.

use crate::dtype::Dtype;
use half::{bf16, f16};

/// A Rust type that has a [`Dtype`]. Sealed: `f32`, `half::f16`, `half::bf16`.
#[diagnostic::on_unimplemented(message = "`{Self}` is not an element type", label = "use f32, half::f16 or half::bf16")]
pub trait Element: bytemuck::Pod + Send + Sync + sealed::Sealed {
    /// Its name.
    const DTYPE: Dtype;
    /// Rounds to nearest even.
    fn from_f32(x: f32) -> Self;
    /// Exact.
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

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}
