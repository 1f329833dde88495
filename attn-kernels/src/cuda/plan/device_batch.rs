//! Batches whose arrays are in device memory.

use attn_core::batch::{DeviceBatch, I32Slice};

use crate::cuda::CudaError;

/// Refuses arrays that kernels cannot read.
pub(super) fn check_addresses(batch: &DeviceBatch<'_>) -> Result<(), CudaError> {
    batch.arrays().try_for_each(|(name, array)| check_address(name, &array))
}

fn check_address(name: &'static str, array: &I32Slice<'_>) -> Result<(), CudaError> {
    let Some(ptr) = array.device_ptr() else { return Err(CudaError::HostInts { array: name }) };
    let aligned = ptr.is_multiple_of(4) && (ptr != 0 || array.is_empty());
    if aligned {
        Ok(())
    } else {
        Err(CudaError::Alignment { tensor: name, what: "its address", value: ptr, alignment: 4 })
    }
}
