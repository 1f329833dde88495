//! What the driver knows of an address.

use cudarc::driver::sys::{self, CUmemorytype, CUpointer_attribute as Attribute, CUresult};

use super::library;
use crate::cuda::Device;

/// What the driver says of memory that it does not know: no error, and no kind.
pub(in crate::cuda) const UNKNOWN: (CUresult, u32) = (CUresult::CUDA_SUCCESS, 0);

/// What the driver says when it is asked for the kind of memory at an address. The driver is loaded.
pub(in crate::cuda) fn kind_of_memory(at: u64) -> (CUresult, u32) {
    ask(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at)
}

/// Asks for an attribute that is an unsigned int.
fn ask(mut attribute: Attribute, at: u64) -> (CUresult, u32) {
    let mut answer = 0u32;
    let mut output = (&raw mut answer).cast();
    // `cuPointerGetAttribute` would answer with an error, which tools that watch the driver report
    // SAFETY: one attribute, whose output is an unsigned int; the address is only looked up.
    let code = unsafe { sys::cuPointerGetAttributes(1, &raw mut attribute, &raw mut output, at) };
    (code, answer)
}

impl Device {
    /// Whether the driver knows the memory at an address: it has allocated, mapped or registered it. It does not know
    /// what `malloc` returns, where kernels of most devices fault. True as well if the driver cannot tell.
    #[must_use]
    pub fn knows(&self, address: u64) -> bool {
        self.make_current().map_or(true, |_current| kind_of_memory(address) != UNKNOWN)
    }
}

/// Whether an address is of device memory, which the host does not read; managed memory is not. False as well if the
/// driver cannot tell, or if neither [`device_count`](library::device_count) nor a [`Device`] has loaded it.
#[must_use]
pub fn is_device_memory(address: u64) -> bool {
    let device = (CUresult::CUDA_SUCCESS, CUmemorytype::CU_MEMORYTYPE_DEVICE as u32);
    let own = (CUresult::CUDA_SUCCESS, 0);
    library::is_loaded()
        && kind_of_memory(address) == device
        && ask(Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == own
}
