//! The random numbers of verification, and what is decided with them: on the host and in kernels, with the same bits.

pub(crate) use device::CUDA;
pub(super) use device::{DRAW, RESIDUAL, TEST, coin, reaches};

/// The random numbers of verification.
#[allow(unreachable_pub)] // private to sampling
#[attn_macros::device_mod(namespace = "lang::verify", include = "lang/types.cuh")]
mod device {
    /// The random number of a position that draws the token after the drafts.
    pub const DRAW: u32 = 0;
    /// The one that tests drafts.
    pub const TEST: u32 = 1;
    /// The one that draws the token in place of a draft that is refused.
    pub const RESIDUAL: u32 = 2;

    /// A number in [0, 1) of the upper 24 bits of a random number.
    #[must_use]
    pub fn coin(random: u64) -> f32 {
        ((random >> 40) as f32) * 5.960_464_5e-8
    }

    /// Whether a child in a tree is accepted: the probabilities up to its own, `sum`, exceed the coin, or its own,
    /// `prob`, reaches the threshold of a single one.
    #[must_use]
    pub fn reaches(coin: f32, sum: f32, prob: f32, threshold_single: f32, threshold_acc: f32) -> bool {
        coin < sum / threshold_acc || prob >= threshold_single
    }
}
