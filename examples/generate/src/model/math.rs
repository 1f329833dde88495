//! The mathematics of a step outside of attention, sampling and the KV cache.

mod cpu;
mod cuda;

pub use cpu::CpuMath;
pub use cuda::{CudaMath, CudaMathOptions};

use std::sync::Arc;

use attn::{DeviceBuffer, Dtype, Engine, Stream, ops::Array};

use crate::Error;

/// A weight matrix, (outputs, inputs) in rows, in the element type of the device.
#[derive(Debug)]
pub struct Matrix {
    /// The elements.
    pub values: DeviceBuffer,
    /// Outputs: rows.
    pub outputs: usize,
    /// Inputs: columns.
    pub inputs: usize,
}

/// Mathematics on one device, in the order of one stream. Activations are rows in buffers of [`Math::dtype`], the
/// residual in one of f32; a buffer may have more rows than a call uses.
///
/// Calls between steps (`weights`, `matrix`, `buffer`) allocate. All others only launch: they neither allocate nor wait
/// nor decide by values, so a CUDA graph can capture them. Rows are padded there: token ids of padding are those of
/// some token, and what comes out for them is not read.
///
/// Each row of a result depends on that row of the input alone. In batch-invariant mode its bits do too, whatever the
/// number of rows.
pub trait Math: Send + std::fmt::Debug {
    /// The device.
    fn engine(&self) -> &Engine;

    /// The stream of all launches.
    fn stream(&self) -> &Arc<Stream>;

    /// The element type of weights, activations, and the KV cache; logits are f32.
    fn dtype(&self) -> Dtype;

    /// Uploads weights in the element type of the device.
    fn weights(&self, values: &[f32]) -> Result<DeviceBuffer, Error>;

    /// Uploads a matrix of `values.len() / inputs` outputs.
    fn matrix(&self, values: &[f32], inputs: usize) -> Result<Matrix, Error> {
        Ok(Matrix { values: self.weights(values)?, outputs: values.len() / inputs, inputs })
    }

    /// Allocates activations.
    fn buffer(&self, elements: usize) -> Result<DeviceBuffer, Error> {
        Ok(self.engine().alloc(self.dtype(), elements)?)
    }

    /// The rows that buffers for `rows` rows should have: products are padded to few sizes.
    fn padded_rows(&self, rows: usize) -> usize {
        rows
    }

    /// Prepares all launches, so that the first one can be captured: compiles and loads kernels, chooses algorithms for
    /// up to `max_rows` rows of each `matrices`.
    ///
    /// # Errors
    ///
    /// Neither a kernel nor a compiler.
    fn prepare(&mut self, matrices: &[&Matrix], max_rows: usize) -> Result<(), Error> {
        let _ = (matrices, max_rows);
        Ok(())
    }

    /// `out[i] = table[tokens[i]]` for `rows` tokens. A token outside of the table gives zeros.
    fn embed(
        &mut self,
        table: &Matrix,
        tokens: Array<'_, i32>,
        out: &mut DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error>;

    /// `out[i] = x[i] / sqrt(mean(x[i]^2) + eps) * weight`, the mean in f32 or better. Rows have the weight's elements.
    fn rms_norm(
        &mut self,
        x: &DeviceBuffer,
        weight: &DeviceBuffer,
        eps: f32,
        out: &mut DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error>;

    /// `out[i] = weight x[i]`, or `out[i] += weight x[i]` with `accumulate`. Products accumulate in f32. `out` is of
    /// [`Math::dtype`], or of f32 (logits, a residual).
    fn linear(
        &mut self,
        weight: &Matrix,
        x: &DeviceBuffer,
        out: &mut DeviceBuffer,
        rows: usize,
        accumulate: bool,
    ) -> Result<(), Error>;

    /// `out[i][j] = silu(gate_up[i][j]) * gate_up[i][width + j]` for rows of `2 * width` and of `width` elements.
    fn silu_mul(
        &mut self,
        gate_up: &DeviceBuffer,
        out: &mut DeviceBuffer,
        width: usize,
        rows: usize,
    ) -> Result<(), Error>;

    /// `out[i] = x[indices[i]]` for `rows` rows of `width` elements. A negative index is padding, and gives zeros.
    fn gather_rows(
        &mut self,
        x: &DeviceBuffer,
        indices: Array<'_, i32>,
        out: &mut DeviceBuffer,
        width: usize,
        rows: usize,
    ) -> Result<(), Error>;
}
