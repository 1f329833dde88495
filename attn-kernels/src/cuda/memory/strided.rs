//! Addresses and strides of tensors, as kernels take them.

use attn_core::tensor::{TensorError, TensorRef};

use crate::{cuda::CudaError, launch::Strided};

/// The address of a tensor, which is in device memory.
pub(in crate::cuda) fn pointer(name: &'static str, tensor: &TensorRef<'_>) -> Result<u64, CudaError> {
    let host = TensorError::Memory { tensor: name, got: "host", want: "device" };
    Ok(tensor.device_ptr().ok_or(host)?)
}

/// Checks that a tensor of (tokens, heads, dim) or (pages, slots, heads, dim) suits loads of 16 bytes, or of 8 or 4 if
/// its rows are no multiples of 16 bytes.
pub(in crate::cuda) fn strided(name: &'static str, tensor: &TensorRef<'_>) -> Result<Strided, CudaError> {
    let data = pointer(name, tensor)?;
    let rank = tensor.shape().len();
    let row_bytes = tensor.shape()[rank - 1] * tensor.dtype().size();
    // side data of KV formats alone have odd multiples of 4 bytes
    let alignment = [16, 8].into_iter().find(|&unit| row_bytes.is_multiple_of(unit as usize)).unwrap_or(4);
    let aligned = |what, value: u64| {
        if value.is_multiple_of(alignment) {
            Ok(())
        } else {
            Err(CudaError::Alignment { tensor: name, what, value, alignment })
        }
    };
    aligned("its address", data)?;
    // the stride of an extent of 1 is not used
    let stride = |dim: usize, what| -> Result<i64, CudaError> {
        let stride = if tensor.shape()[dim] > 1 { tensor.strides()[dim] } else { 0 };
        aligned(what, stride as u64 * tensor.dtype().size() as u64)?;
        // kernels compute offsets of tokens in 32 bits; addresses of tensors and pages have 64
        let bytes = stride.unsigned_abs() * tensor.dtype().size() as u64;
        if rank == 3 && dim == 0 && i32::try_from(bytes).is_err() {
            return Err(CudaError::Stride { tensor: name, what, value: bytes });
        }
        Ok(stride)
    };
    let page = if rank == 4 { stride(0, "its stride from page to page")? } else { 0 };
    let token = stride(rank - 3, "its stride from token to token")?;
    let head = stride(rank - 2, "its stride from head to head")?;
    Ok(Strided { data, token, head, page })
}
