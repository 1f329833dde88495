//! Fast approximate functions. Both sides of a variant's arithmetic say so when they use one: the accurate
//! functions are the methods of `f32`.

/// `tanh` by one instruction on the GPU: relative error up to 2^-11. Accurate on the CPU.
#[must_use]
pub fn tanh(x: f32) -> f32 {
    x.tanh()
}

/// `exp` by one multiplication and one instruction on the GPU: relative error about 2^-21 near 0, growing with |x|.
/// Accurate on the CPU.
#[must_use]
pub fn exp(x: f32) -> f32 {
    x.exp()
}

/// `1 / x` by one instruction on the GPU: error within 1 ulp. Accurate on the CPU.
#[must_use]
pub fn recip(x: f32) -> f32 {
    x.recip()
}
