//! What the host hands to kernels.

mod abi;
mod fast_div;

pub use abi::{KernelParams, Strided};
pub use fast_div::FastDiv;
