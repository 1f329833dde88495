//! A kernel that was compiled for the host.

use std::sync::Arc;

use attn_core::{expr::Variant, spec::KernelKind};
use attn_kernels::kernel_traits::KernelTraits;
use libloading::Library;

/// The fibers of a CTA.
pub const FIBERS: &str = concat!(include_str!("context.cpp"), include_str!("fibers.cpp"));

/// The kernel of one branch of a variant.
#[derive(Debug)]
pub(super) struct HostKernel {
    pub(super) variant: Variant,
    pub(super) traits: KernelTraits,
    pub(super) library: Arc<Library>,
}

impl HostKernel {
    pub(super) fn is_mixed(&self) -> bool {
        self.traits.kind() == KernelKind::Mixed
    }
}
