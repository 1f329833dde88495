//! The parameters of a variant as kernel arguments.

use crate::lang::desc::Elem;
use crate::lang::param_tensor::OutBuffer;
use crate::lang::param_tensor::bounds::ElementBounds;

/// Visits a variant's fields as kernel arguments.
pub trait ArgVisitor {
    /// A scalar, by its 4 bytes (bool: 0 or 1 as an `i32`).
    fn scalar(&mut self, bits: u32);
    /// A parameter tensor.
    fn tensor(&mut self, tensor: TensorArg<'_>);
    /// An output tensor and its shape; without a buffer if it is unset.
    fn out(&mut self, buffer: Option<&OutBuffer>, shape: &[i64]);
}

/// A parameter tensor as a kernel argument.
#[derive(Clone, Copy, Debug)]
pub struct TensorArg<'a> {
    /// The elements, row-major, each in its own width (bool: one byte, 0 or 1).
    pub bytes: &'a [u8],
    /// Their type.
    pub elem: Elem,
    /// The shape; each extent is below 2^31.
    pub shape: &'a [i64],
    /// Element bounds for tile classes, computed on first use.
    pub bounds: &'a dyn ElementBounds,
}
