//! Writes the output row by row.

use half::{bf16, f16, slice::HalfFloatSliceExt};

use crate::dtype::{Dtype, DtypesError};
use crate::lang::RowIndex;
use crate::tensor::{Out, TensorError};

/// An output in host memory; its shape has been checked. Rows are borrowed one at a time, since between them may lie
/// elements of an input, which other threads read.
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
        let OutputWriter(out) = self;
        let at = [at.qo_token as usize, at.qo_head as usize];
        let dtype = out.o.dtype();
        let to = out.o.host_row_mut(&at, row.len()).expect("`new` refuses device memory");
        match dtype {
            Dtype::F16 => bytemuck::cast_slice_mut::<u8, f16>(to).convert_from_f32_slice(row),
            Dtype::Bf16 => bytemuck::cast_slice_mut::<u8, bf16>(to).convert_from_f32_slice(row),
            Dtype::F32 => to.copy_from_slice(bytemuck::cast_slice(row)),
            Dtype::E4m3 | Dtype::E5m2 | Dtype::U8 => unreachable!("`new` refuses types of 8 bits"),
        }
        if let Some(lses) = &mut out.lse {
            let to = lses.host_row_mut(&at, 1).expect("`new` refuses device memory");
            to.copy_from_slice(&lse.to_ne_bytes());
        }
    }
}
