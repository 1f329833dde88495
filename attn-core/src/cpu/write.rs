//! Writes the output row by row.

use half::{bf16, f16, slice::HalfFloatSliceExt};

use crate::{
    dtype::{Dtype, DtypesError},
    lang::RowIndex,
    tensor::{Out, TensorError},
};

enum OutputElements<'a> {
    F32(&'a mut [f32]),
    F16(&'a mut [f16]),
    Bf16(&'a mut [bf16]),
}

/// An output in host memory; its shape has been checked.
pub(super) struct OutputWriter<'a> {
    o: OutputElements<'a>,
    o_strides: [usize; 2],
    lse: Option<(&'a mut [f32], [usize; 2])>,
}

impl<'a> OutputWriter<'a> {
    pub(super) fn new(out: &'a mut Out<'_>) -> Result<Self, TensorError> {
        let device = |tensor| TensorError::Memory { tensor, got: "device", want: "host" };
        let strides = |strides: &[i64]| [strides[0] as usize, strides[1] as usize];
        let o_strides = strides(out.o.strides());
        let o = match out.o.dtype() {
            Dtype::F32 => out.o.as_host_mut().map(OutputElements::F32),
            Dtype::F16 => out.o.as_host_mut().map(OutputElements::F16),
            Dtype::Bf16 => out.o.as_host_mut().map(OutputElements::Bf16),
            qo @ (Dtype::E4m3 | Dtype::E5m2 | Dtype::U8) => return Err(DtypesError::Qo { qo }.into()),
        };
        let lse = match &mut out.lse {
            None => None,
            Some(lse) => {
                let strides = strides(lse.strides());
                Some((lse.as_host_mut().ok_or_else(|| device("lse"))?, strides))
            }
        };
        Ok(OutputWriter { o: o.ok_or_else(|| device("o"))?, o_strides, lse })
    }

    /// Writes one final row, rounded to the output's type.
    pub(super) fn write(&mut self, at: RowIndex, row: &[f32], lse: f32) {
        let (token, head) = (at.qo_token as usize, at.qo_head as usize);
        let offset = |[token_stride, head_stride]: [usize; 2]| token * token_stride + head * head_stride;
        let start = offset(self.o_strides);
        let range = start..start + row.len();
        match &mut self.o {
            OutputElements::F32(o) => o[range].copy_from_slice(row),
            OutputElements::F16(o) => o[range].convert_from_f32_slice(row),
            OutputElements::Bf16(o) => o[range].convert_from_f32_slice(row),
        }
        if let Some((out, strides)) = &mut self.lse {
            out[offset(*strides)] = lse;
        }
    }
}
