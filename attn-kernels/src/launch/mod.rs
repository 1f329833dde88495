//! What the host hands to kernels.

mod abi;
mod fast_div;
mod plan_abi;

pub use abi::{KernelParams, Strided};
pub use fast_div::FastDiv;
pub use plan_abi::{PLAN_SHARED_BYTES, PLAN_STATUS_BYTES, PlanParams, PlanStatus};
