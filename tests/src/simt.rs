//! Kernels compiled for the host: the threads of a CTA are fibers (`simt/fibers.cpp`), and functions with inline
//! assembly give way to emulated ones (`simt/arch`). A run is compared with the f64 reference.

mod check;
mod compile;
mod host_text;
mod judge;
mod kernel;
mod ops;
mod run;
mod sampler;
mod sm90;
mod verifier;

pub use check::{bits, check, on_tensor_cores, sample};
pub use host_text::replaced;
pub use kernel::FIBERS;
pub use ops::HostOp;
pub use sampler::HostSampler;
pub use verifier::HostVerifier;
