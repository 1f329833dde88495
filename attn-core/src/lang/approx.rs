//! Fast approximate functions for hooks. They are named in the hook's source, so both sides use them; the methods of
//! `f32` are the accurate ones.
//!
//! Accuracy of the methods: on the CPU `x.tanh()`, `x.exp()` and the others are those of Rust's standard library; on a
//! GPU they are CUDA's `tanhf`, `expf` and so on, never compiled with fast-math. Their errors, a few ulp, are listed in
//! the CUDA programming guide under "Mathematical Functions". Three have our own GPU implementation: `sin` and `cos`
//! within 2 ulp for any argument, and `recip`, correctly rounded except near ties. These are tested against f64.
//!
//! The functions of this module are accurate on the CPU and approximate on a GPU, with the error stated for each. For
//! example, a soft cap of 50 by [`tanh`], as in the stock `soft_cap`, moves a logit by up to 0.024. In kernels over f32
//! tensors they are accurate on a GPU too.
//!
//! The exponentials of the softmax itself are not part of a variant: kernels compute `2^x` with one instruction, at a
//! relative error of 2^-22.

/// `tanh`. On the GPU one instruction (`tanh.approx.f32`), relative error up to 2^-11; accurate on the CPU.
#[must_use]
pub fn tanh(x: f32) -> f32 {
    x.tanh()
}

/// `exp`. On the GPU one multiplication and one instruction (`ex2.approx.ftz.f32`), relative error about 2^-21 near 0,
/// growing with |x|; accurate on the CPU.
#[must_use]
pub fn exp(x: f32) -> f32 {
    x.exp()
}

/// `1 / x`. On the GPU one instruction (`rcp.approx.ftz.f32`), error within 1 ulp; accurate on the CPU.
#[must_use]
pub fn recip(x: f32) -> f32 {
    x.recip()
}

/// `(sin x, cos x)`. On the GPU an argument reduction of four instructions, then one instruction each
/// (`sin.approx.f32`, `cos.approx.f32`): absolute error up to 2^-20 for |x| < 2^22, meaningless beyond; accurate on the
/// CPU. It suffices for results that are rounded to 16 bits, such as rotated rows.
#[must_use]
pub fn sin_cos(x: f32) -> (f32, f32) {
    x.sin_cos()
}
