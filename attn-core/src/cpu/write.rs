//! Writes the output row by row.

use half::{bf16, f16, slice::HalfFloatSliceExt};

use crate::dtype::{Dtype, DtypesError};
use crate::lang::RowIndex;
use crate::tensor::{Out, TensorError};

/// An output in host memory; its shape has been checked. A row at a time is borrowed: the elements may lie between
/// those of an input.
pub(super) struct OutputWriter<'a>(Out<'a>);

impl<'a> OutputWriter<'a> {
    pub(super) fn new(out: Out<'a>) -> Result<Self, TensorError> {
        if let qo @ (Dtype::E4m3 | Dtype::E5m2 | Dtype::U8) = out.o.dtype() {
            return Err(DtypesError::Qo { qo }.into());
        }
        for (tensor, of) in [("o", Some(&out.o)), ("lse", out.lse.as_ref())] {
            if of.is_some_and(|of| of.device_ptr().is_some()) {
                return Err(TensorError::Memory { tensor, got: "device", want: "host" });
            }
        }
        Ok(OutputWriter(out))
    }

    /// Writes one final row, rounded to the output's type.
    pub(super) fn write(&mut self, at: RowIndex, row: &[f32], lse: f32) {
        let (OutputWriter(out), at) = (self, [at.qo_token as usize, at.qo_head as usize]);
        let dtype = out.o.dtype();
        if let Some(to) = out.o.host_row_mut(&at, row.len()) {
            match dtype {
                Dtype::F16 => bytemuck::cast_slice_mut::<u8, f16>(to).convert_from_f32_slice(row),
                Dtype::Bf16 => bytemuck::cast_slice_mut::<u8, bf16>(to).convert_from_f32_slice(row),
                _ => to.copy_from_slice(bytemuck::cast_slice(row)),
            }
        }
        if let Some(to) = out.lse.as_mut().and_then(|lse| lse.host_row_mut(&at, 1)) {
            to.copy_from_slice(&lse.to_ne_bytes());
        }
    }
}
