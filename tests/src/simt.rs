//! Kernels compiled for the host: the threads of a CTA are fibers (`simt/fibers.cpp`), and functions with inline
//! assembly give way to emulated ones (`simt/arch`). A run is compared with the f64 reference.
//!
//! What shows as a wrong result, NaN or a failure: a missing wait or barrier, since threads run in random order, and
//! copies (`cp.async`, TMA) and products (WGMMA) happen as early or as late as waits allow, over poisoned memory; lanes
//! of a warp at different collective instructions; a deadlock; an address that is unaligned or outside of shared
//! memory; writes past the end of dynamic shared memory; TMA loads over what a thread wrote with `st.shared` or
//! `cp.async` and did not fence; work that is left when a CTA ends.
//!
//! What runs on a GPU alone: any other order of memory among threads and proxies (`fence.proxy.async`, volatile,
//! acquire and release), CTAs at the same time (here one ends before the next begins), clusters of several CTAs, the
//! number of registers, and the accuracy of approximate instructions.

mod check;
mod compile;
mod host_text;
mod judge;
mod kernel;
mod lists;
mod ops;
mod run;
mod sampler;
mod sm90;
mod verifier;

pub use check::{bits, check, check_merges, on_tensor_cores, outputs, preprocessed_values, sample};
pub use compile::has_sm90_prefill;
pub use host_text::replaced;
pub use kernel::FIBERS;
pub use lists::key_lists;
pub use ops::HostOp;
pub use sampler::HostSampler;
pub use verifier::HostVerifier;
