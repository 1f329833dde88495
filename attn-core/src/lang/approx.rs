//! Fast approximate functions. Both sides of a variant's arithmetic say so when they use one: the accurate
//! functions are the methods of `f32`.
//!
//! The default is accurate: `x.tanh()`, `x.exp()` and the other methods are those of Rust's standard library on the CPU, and on a
//! GPU CUDA's `tanhf`, `expf` and so on, never compiled with fast-math; their errors, a few units in the last place, are listed in the
//! CUDA programming guide under "Mathematical Functions". Three are this library's own on a GPU: `sin` and `cos` within 2 units in the
//! last place for any argument, `recip` rounded correctly but for near ties; both are tested against f64.
//!
//! The functions of this module are accurate on the CPU and less so on a GPU, by the error that each of them states. So a
//! soft cap of 50 by [`tanh`], as the stock `soft_cap` is made, moves a logit by up to 0.024.
//!
//! The exponentials of softmax itself are not the variant's: kernels take `2^x` by one instruction, relative error 2^-22.

/// `tanh` by one instruction (`tanh.approx.f32`) on the GPU: relative error up to 2^-11. Accurate on the CPU.
#[must_use]
pub fn tanh(x: f32) -> f32 {
    x.tanh()
}

/// `exp` by one multiplication and one instruction (`ex2.approx.ftz.f32`) on the GPU: relative error about 2^-21 near 0, growing with |x|.
/// Accurate on the CPU.
#[must_use]
pub fn exp(x: f32) -> f32 {
    x.exp()
}

/// `1 / x` by one instruction (`rcp.approx.ftz.f32`) on the GPU: error within 1 ulp. Accurate on the CPU.
#[must_use]
pub fn recip(x: f32) -> f32 {
    x.recip()
}

/// Sine and cosine, after a reduction by four instructions, by one instruction each (`sin.approx.f32`, `cos.approx.f32`) on the GPU: absolute
/// error up to 2^-20 for |x| below 2^22, nothing of use from there on. What is rounded to 16 bits anyway, as rotated rows are, needs no better.
/// Accurate on the CPU.
#[must_use]
pub fn sin_cos(x: f32) -> (f32, f32) {
    x.sin_cos()
}
