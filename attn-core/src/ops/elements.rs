//! Elements of tensors in host memory, as f32 and back.

use half::{bf16, f16};

use crate::dtype::Dtype;
use crate::lang::{F8E4M3, F8E5M2};
use crate::tensor::{Element, TensorError};

/// Reads a row as f32; `bytes` begin at the row.
pub(crate) fn read(dtype: Dtype, bytes: &[u8], row: &mut [f32]) {
    fn of<T: Element>(bytes: &[u8], row: &mut [f32]) {
        let size = size_of::<T>();
        for (to, from) in row.iter_mut().zip(bytes.chunks_exact(size)) {
            *to = bytemuck::pod_read_unaligned::<T>(from).to_f32();
        }
    }
    match dtype {
        Dtype::F16 => of::<f16>(bytes, row),
        Dtype::Bf16 => of::<bf16>(bytes, row),
        Dtype::F32 => of::<f32>(bytes, row),
        Dtype::E4m3 => of::<F8E4M3>(bytes, row),
        Dtype::E5m2 => of::<F8E5M2>(bytes, row),
        // checks refuse to convert bytes: a format decodes them
        Dtype::U8 => row.fill(f32::NAN),
    }
}

/// Writes a row, rounded as [`Element::from_f32`] does.
pub(crate) fn write(dtype: Dtype, bytes: &mut [u8], row: &[f32]) {
    fn of<T: Element>(bytes: &mut [u8], row: &[f32]) {
        let size = size_of::<T>();
        for (to, from) in bytes.chunks_exact_mut(size).zip(row) {
            to.copy_from_slice(bytemuck::bytes_of(&T::from_f32(*from)));
        }
    }
    match dtype {
        Dtype::F16 => of::<f16>(bytes, row),
        Dtype::Bf16 => of::<bf16>(bytes, row),
        Dtype::F32 => of::<f32>(bytes, row),
        Dtype::E4m3 => of::<F8E4M3>(bytes, row),
        Dtype::E5m2 => of::<F8E5M2>(bytes, row),
        // checks refuse to convert to bytes: a format encodes them
        Dtype::U8 => {}
    }
}

/// Offset of an element in bytes.
pub(crate) fn offset(strides: &[i64], at: &[usize], size: usize) -> usize {
    strides.iter().zip(at).map(|(&stride, &i)| stride as usize * i).sum::<usize>() * size
}

/// The error for a tensor in device memory that must be in host memory.
pub(crate) fn on_device(tensor: &'static str) -> TensorError {
    TensorError::Memory { tensor, got: "device", want: "host" }
}
