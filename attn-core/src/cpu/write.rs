//! Writes the output row by row.

use half::{bf16, f16, slice::HalfFloatSliceExt};

use crate::dtype::Dtype;
use crate::lang::{F8E4M3, RowIndex};
use crate::tensor::{Out, TensorError};

/// An output in host memory; its shape has been checked. Rows are borrowed one at a time, since between them may lie
/// elements of an input, which other threads read.
pub(super) struct OutputWriter<'a> {
    out: Out<'a>,
    /// What rows of e4m3 are multiplied by.
    inverse_scale: f32,
}

impl<'a> OutputWriter<'a> {
    pub(super) fn new(out: Out<'a>) -> Result<Self, TensorError> {
        for (tensor, of) in [("o", Some(&out.o)), ("lse", out.lse.as_ref())] {
            if of.is_some_and(|of| of.device_ptr().is_some()) {
                return Err(TensorError::Memory { tensor, got: "device", want: "host" });
            }
        }
        let elsewhere = TensorError::Memory { tensor: "o_scales", got: "device", want: "host" };
        let inverse_scale = 1.0 / out.scale.on_host(1).ok_or(elsewhere)?[0];
        Ok(OutputWriter { out, inverse_scale })
    }

    /// Writes one final row, rounded to the output's type.
    pub(super) fn write(&mut self, at: RowIndex, row: &[f32], lse: f32) {
        let OutputWriter { out, inverse_scale } = self;
        let at = [at.qo_token as usize, at.qo_head as usize];
        let dtype = out.o.dtype();
        let to = out.o.host_row_mut(&at, row.len()).expect("`new` refuses device memory");
        match dtype {
            Dtype::F16 => bytemuck::cast_slice_mut::<u8, f16>(to).convert_from_f32_slice(row),
            Dtype::Bf16 => bytemuck::cast_slice_mut::<u8, bf16>(to).convert_from_f32_slice(row),
            Dtype::F32 => to.copy_from_slice(bytemuck::cast_slice(row)),
            Dtype::E4m3 => {
                let elements = to.iter_mut().zip(row);
                elements.for_each(|(to, x)| *to = F8E4M3::from_f32(x * *inverse_scale).0);
            }
            Dtype::E5m2 | Dtype::U8 => unreachable!("`check_run` refuses these types"),
        }
        if let Some(lses) = &mut out.lse {
            let to = lses.host_row_mut(&at, 1).expect("`new` refuses device memory");
            to.copy_from_slice(&lse.to_ne_bytes());
        }
    }
}
