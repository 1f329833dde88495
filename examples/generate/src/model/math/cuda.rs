//! The mathematics on CUDA: weights and activations in f16, products by cuBLASLt with f32 sums, and kernels in CUDA C++
//! that the library compiles.

mod blas;
mod products;
mod rows;

use std::sync::Arc;

use attn::{
    DeviceBuffer, Dtype, Engine, Stream,
    cuda::{Arg, Grid, Module},
    f16,
    ops::Array,
};

use rayon::prelude::*;

use super::{Math, Matrix};
use crate::Error;
use products::Products;
use rows::{VECTOR, grid, of_f16, of_rows, same};

const NAME: &str = "elementwise.cu";
const TEXT: &str = concat!(include_str!("cuda/elementwise.cu"), include_str!("cuda/few_rows.cu"));

/// The entries. Those of products to f16 and to f32 are neighbours.
const ENTRIES: [&str; 10] = [
    "embed",
    "gather",
    "rms_norm",
    "silu_mul",
    "product_1_f16",
    "product_1_f32",
    "product_2_f16",
    "product_2_f32",
    "product_4_f16",
    "product_4_f32",
];
const EMBED: usize = 0;
const GATHER: usize = 1;
const RMS_NORM: usize = 2;
const SILU_MUL: usize = 3;
/// Of 1, 2 and 4 rows.
const PRODUCT: usize = 4;

/// Rows of a product that the kernel of this program computes, at most.
const FEW_ROWS: usize = 4;

/// Threads of a CTA, at most.
const MAX_THREADS: usize = 1024;

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
}

impl Default for CudaMathOptions {
    fn default() -> Self {
        CudaMathOptions { fixed_rows: false, few_rows: FEW_ROWS, few_rows_bytes: 16 << 20 }
    }
}

/// The mathematics on a CUDA device, in the order of a stream of its own. One thread at a time.
#[derive(Debug)]
pub struct CudaMath {
    engine: Engine,
    stream: Arc<Stream>,
    kernels: Module,
    products: Products,
    few_rows: usize,
    few_rows_bytes: usize,
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
            kernels: Module::new(engine, NAME, TEXT, &ENTRIES)?,
            products: Products::new(engine, options.fixed_rows)?,
            few_rows: if options.fixed_rows { 0 } else { options.few_rows.min(FEW_ROWS) },
            few_rows_bytes: options.few_rows_bytes,
        })
    }

    /// [`Math::linear`] for up to [`FEW_ROWS`] rows. Buffers have a power of two of rows.
    fn few_rows_product(
        &self,
        weight: &Matrix,
        x: &DeviceBuffer,
        out: &mut DeviceBuffer,
        rows: usize,
        accumulate: bool,
    ) -> Result<(), Error> {
        let Matrix { values, outputs, inputs } = weight;
        let (outputs, inputs, rows) = (*outputs, *inputs, rows.next_power_of_two());
        let entry = PRODUCT + 2 * rows.min(FEW_ROWS).ilog2() as usize + of_rows(out)?;
        let warps = 4;
        let ctas = grid(outputs, inputs, MAX_THREADS)?.ctas.0.div_ceil(warps);
        let grid = Grid { ctas: (ctas, 1), threads: 32 * warps, smem: 0 };
        let (weight, x) = (of_f16(values)?.tensor(&[outputs, inputs])?, of_f16(x)?.tensor(&[rows, inputs])?);
        let out = out.tensor_mut(&[rows, outputs])?;
        let (outputs, inputs, accumulate) = (outputs as i32, inputs as i32, i32::from(accumulate));
        let args = [
            Arg::read(&weight),
            Arg::read(&x),
            Arg::value(&outputs),
            Arg::value(&inputs),
            Arg::value(&accumulate),
            Arg::write(&out),
        ];
        // SAFETY: as in `embed`.
        Ok(unsafe { self.kernels.launch(&self.stream, entry, grid, &args) }?)
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

    fn weights(&self, values: &[f32]) -> Result<DeviceBuffer, Error> {
        let values: Vec<f16> = values.par_iter().map(|&x| f16::from_f32(x)).collect();
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
        let (vocab, width) = (table.outputs, table.inputs);
        same(out.dtype(), Dtype::F32)?;
        let grid = grid(rows, width, 128)?;
        let (table, out) = (of_f16(&table.values)?.tensor(&[vocab, width])?, out.tensor_mut(&[rows, width])?);
        let tokens = tokens.first(rows).map_err(attn::Error::from)?;
        let (vocab, width) = (vocab as i32, width as i32);
        let args =
            [Arg::read(&table), Arg::read_array(&tokens), Arg::value(&vocab), Arg::value(&width), Arg::write(&out)];
        // SAFETY: these are the parameters of the entry, and the tensors have the shapes that it keeps to.
        Ok(unsafe { self.kernels.launch(&self.stream, EMBED, grid, &args) }?)
    }

    fn rms_norm(
        &mut self,
        x: &DeviceBuffer,
        weight: &DeviceBuffer,
        eps: f32,
        out: &mut DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error> {
        let width = weight.elements();
        same(x.dtype(), Dtype::F32)?;
        same(out.dtype(), Dtype::F16)?;
        let grid = grid(rows, width, MAX_THREADS)?;
        if grid.ctas.1 > 1 {
            return Err(Error::Width { width, most: MAX_THREADS * VECTOR, multiple: VECTOR });
        }
        let (x, weight) = (x.tensor(&[rows, width])?, of_f16(weight)?.tensor(&[width])?);
        let (out, width) = (out.tensor_mut(&[rows, width])?, width as i32);
        let args = [Arg::read(&x), Arg::read(&weight), Arg::value(&eps), Arg::value(&width), Arg::write(&out)];
        // SAFETY: as in `embed`.
        Ok(unsafe { self.kernels.launch(&self.stream, RMS_NORM, grid, &args) }?)
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
            return self.few_rows_product(weight, x, out, rows, accumulate);
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
        same(out.dtype(), Dtype::F16)?;
        let grid = grid(rows, width, 128)?;
        let (gate_up, out) = (of_f16(gate_up)?.tensor(&[rows, 2 * width])?, out.tensor_mut(&[rows, width])?);
        let width = width as i32;
        let args = [Arg::read(&gate_up), Arg::value(&width), Arg::write(&out)];
        // SAFETY: as in `embed`.
        Ok(unsafe { self.kernels.launch(&self.stream, SILU_MUL, grid, &args) }?)
    }

    fn gather_rows(
        &mut self,
        x: &DeviceBuffer,
        indices: Array<'_, i32>,
        out: &mut DeviceBuffer,
        width: usize,
        rows: usize,
    ) -> Result<(), Error> {
        same(x.dtype(), Dtype::F32)?;
        same(out.dtype(), Dtype::F32)?;
        let grid = grid(rows, width, 128)?;
        let from = x.elements() / width;
        let (x, out) = (x.tensor(&[from, width])?, out.tensor_mut(&[rows, width])?);
        let indices = indices.first(rows).map_err(attn::Error::from)?;
        let (from, width) = (from as i32, width as i32);
        let args = [Arg::read(&x), Arg::read_array(&indices), Arg::value(&from), Arg::value(&width), Arg::write(&out)];
        // SAFETY: as in `embed`.
        Ok(unsafe { self.kernels.launch(&self.stream, GATHER, grid, &args) }?)
    }
}

#[cfg(test)]
mod tests {
    use attn_kernels::{
        cache::CubinCache,
        compile::{Arch, nvrtc::Nvrtc},
        jit::obtain_from,
        splice::OpSource,
    };
    use attn_needs::{Need, has};

    use super::*;

    #[test]
    fn the_kernels_compile_for_every_architecture() {
        if !has(Need::Nvrtc, Nvrtc::find()) {
            return;
        }
        for arch in ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"] {
            let arch: Arch = arch.parse().expect("an architecture");
            let source = OpSource::custom(NAME, TEXT, arch).expect("the templates are sound");
            let ready = obtain_from(&CubinCache::off(), source).expect("it compiles");
            let log = &ready.compiled.log;
            assert!(ENTRIES.iter().all(|entry| log.contains(entry)), "{arch}: {log}");
            assert!(
                !log.contains("spill stores") || log.matches("0 bytes spill stores").count() == ENTRIES.len(),
                "{log}"
            );
        }
    }
}
