//! The mathematics on CUDA: weights and activations in f16, products by cuBLASLt with f32 sums, and kernels in CUDA C++
//! that the library compiles.

mod blas;
mod elementwise;
mod products;

use std::sync::Arc;

use attn::{DeviceBuffer, Dtype, Engine, Stream, f16, ops::Array};

use super::{Math, Matrix};
use crate::Error;
use elementwise::Elementwise;
use products::Products;

/// Options of the mathematics on a CUDA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaMathOptions {
    /// Products have a fixed number of rows and one algorithm each, which does not split the sum: a row's bits do not
    /// depend on the rows beside it.
    pub fixed_rows: bool,
    /// Products of up to this many rows, 4 at most, run a kernel of this program, and others cuBLASLt's. In
    /// batch-invariant mode all are cuBLASLt's.
    pub few_rows: usize,
    /// Bytes of a matrix whose products of 2 rows and more run that kernel, at most; of one row, all do. It takes all
    /// rows through CUDA cores, which keep up with the launch of a small product, and not with the memory of a GPU.
    pub few_rows_bytes: usize,
    /// The element type of the residual: f32, or f16, which rounds it after each block.
    pub residual: Dtype,
}

impl Default for CudaMathOptions {
    fn default() -> Self {
        CudaMathOptions {
            fixed_rows: false,
            few_rows: elementwise::FEW_ROWS,
            few_rows_bytes: 16 << 20,
            residual: Dtype::F32,
        }
    }
}

/// The mathematics on a CUDA device, in the order of a stream of its own. One thread at a time.
#[derive(Debug)]
pub struct CudaMath {
    engine: Engine,
    stream: Arc<Stream>,
    elementwise: Elementwise,
    products: Products,
    few_rows: usize,
    few_rows_bytes: usize,
    residual: Dtype,
}

impl CudaMath {
    /// Loads the kernels and cuBLASLt.
    ///
    /// # Errors
    ///
    /// An engine that is the CPU; neither a kernel nor a compiler; [`Error::NoCublas`]; failures of the device.
    pub fn new(engine: &Engine, options: CudaMathOptions) -> Result<Self, Error> {
        Ok(CudaMath {
            engine: engine.clone(),
            stream: Arc::new(engine.stream()?),
            elementwise: Elementwise::new(engine)?,
            products: Products::new(engine, options.fixed_rows)?,
            few_rows: if options.fixed_rows { 0 } else { options.few_rows.min(elementwise::FEW_ROWS) },
            few_rows_bytes: options.few_rows_bytes,
            residual: options.residual,
        })
    }
}

impl Math for CudaMath {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    fn dtype(&self) -> Dtype {
        Dtype::F16
    }

    fn residual_dtype(&self) -> Dtype {
        self.residual
    }

    fn weights(&self, values: &[f32]) -> Result<DeviceBuffer, Error> {
        let values: Vec<f16> = values.iter().map(|&x| f16::from_f32(x)).collect();
        Ok(self.engine.upload(&values)?)
    }

    fn padded_rows(&self, rows: usize) -> usize {
        self.products.padded_rows(rows)
    }

    fn prepare(&mut self, matrices: &[&Matrix], max_rows: usize) -> Result<(), Error> {
        matrices.iter().try_for_each(|matrix| self.products.prepare(matrix, max_rows))
    }

    fn embed(
        &mut self,
        table: &Matrix,
        tokens: Array<'_, i32>,
        out: &mut DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error> {
        self.elementwise.embed(&self.stream, table, tokens, out, rows)
    }

    fn rms_norm(
        &mut self,
        x: &DeviceBuffer,
        weight: &DeviceBuffer,
        eps: f32,
        out: &mut DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error> {
        self.elementwise.rms_norm(&self.stream, x, weight, eps, out, rows)
    }

    fn linear(
        &mut self,
        weight: &Matrix,
        x: &DeviceBuffer,
        out: &mut DeviceBuffer,
        rows: usize,
        accumulate: bool,
    ) -> Result<(), Error> {
        let bytes = weight.outputs * weight.inputs * self.dtype().size();
        if rows <= self.few_rows && (rows <= 1 || bytes <= self.few_rows_bytes) {
            return self.elementwise.product(&self.stream, weight, x, out, rows, accumulate);
        }
        self.products.run(&self.stream, weight, x, out, rows, accumulate)
    }

    fn silu_mul(
        &mut self,
        gate_up: &DeviceBuffer,
        out: &mut DeviceBuffer,
        width: usize,
        rows: usize,
    ) -> Result<(), Error> {
        self.elementwise.silu_mul(&self.stream, gate_up, out, width, rows)
    }

    fn gather_rows(
        &mut self,
        x: &DeviceBuffer,
        indices: Array<'_, i32>,
        out: &mut DeviceBuffer,
        width: usize,
        rows: usize,
    ) -> Result<(), Error> {
        self.elementwise.gather_rows(&self.stream, x, indices, out, width, rows)
    }
}
